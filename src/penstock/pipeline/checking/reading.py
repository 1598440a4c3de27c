"""Reading a span of the log on an executor: each event once for every law that looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from penstock.address import parse
from penstock.engines.ledger.log.floor import FIRST_SLOT
from penstock.engines.ledger.log.startup import newest_checkpoint
from penstock.engines.ledger.names import log_key
from penstock.errors import FormatError, ObjectNotFound
from penstock.kernel import invariants
from penstock.kernel.events import (
    Admitted,
    Adopted,
    Completed,
    Configured,
    Enqueued,
    Event,
    ImportAdvanced,
    Imported,
    position_of,
)
from penstock.kernel.invariants import Committed, Violation
from penstock.kernel.invariants.record import JOB_EVENTS
from penstock.kernel.job import ABSENT, Job
from penstock.pipeline.checking.folding import Kept
from penstock.pipeline.checking.laws import JOB, ORDER, RUNS, SCOPES, committed
from penstock.pipeline.checking.scope import Asked
from penstock.pipeline.source.chunks import Chunk, Span
from penstock.pipeline.source.opening import opened, opened_store
from penstock.ports.store import ObjectStore
from penstock.runtime.loops import new_loop
from penstock.runtime.services import Services
from penstock.wire.commit import decode_commit, decode_event, encode_event
from penstock.wire.snapshot import all_jobs

READS_AT_ONCE: Final = 32
FOUND: Final = "found"
"""The scope of a violation that reading itself has found."""
CHAIN: Final = "chain"
"""The scope of headers, as a chain."""
TIMES: Final = "times"
"""The scope of headers, by the clock: first what was set about clocks, at negative positions."""

ROWS: Final = pa.schema(
    [
        ("scope", pa.string()),
        ("subject", pa.string()),
        ("position", pa.int64()),
        ("line", pa.binary()),
    ]
)
Row = tuple[str, str, int, bytes]


class LogRead(Struct, frozen=True, kw_only=True):
    """What every task is told; the number of its span is the row that it is given.

    The row after the last one stands for the checkpoint, if there is one.
    """

    url: str
    asked: Asked
    spans: list[Span]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    windows = self._windows(number)
                    while (rows := runner.run(anext(windows, None))) is not None:
                        if rows:
                            yield _batch(rows)

    async def _windows(self, number: int) -> AsyncGenerator[list[Row]]:
        address = parse(self.url, {})
        if self.asked.capabilities is not None:
            async with (
                opened(address) as source,
                aclosing(source.chunks(self.spans[number])) as chunks,
            ):
                async for chunk in chunks:
                    yield self._of_chunk(chunk)
            return
        async with opened_store(address, Services()) as store:
            if number == len(self.spans):
                yield await self._checkpoint(store)
                return
            span = self.spans[number]
            for first in range(span.first, span.last + 1, READS_AT_ONCE):
                commits = range(first, min(first + READS_AT_ONCE, span.last + 1))
                read = await asyncio.gather(*(self._rows(store, commit) for commit in commits))
                yield [row for rows in read for row in rows]

    async def _checkpoint(self, store: ObjectStore) -> list[Row]:
        """The jobs that it has, each beside its events."""
        commit = self.asked.checkpoint
        assert commit is not None
        loaded = await newest_checkpoint(store, self.asked.floor, commit)
        if loaded is None or loaded.head.commit != commit:
            return [_found(Violation(14, f"checkpoint {commit} can't be read", commit))]
        return [
            (JOB, _text([job.tenant, job.id]), position_of(commit + 1, 0) - 1, _kept(job))
            for job in all_jobs(loaded.state)
            if job.life >= position_of(self.asked.floor, 0)
        ]

    def _of_chunk(self, chunk: Chunk) -> list[Row]:
        """Of a backend whose commits are no chain: what each says by itself."""
        events = [decode_event(line) for line in chunk.lines.splitlines()]
        commits = committed(events) if self.asked.has_commits else ()
        rows = [_found(each) for one in commits for each in invariants.log_is_a_chain([one])]
        return rows + [row for event in events for row in self._of(event)]

    async def _rows(self, store: ObjectStore, number: int) -> list[Row]:
        key = log_key(number)
        try:
            stored = await store.get(key)
            commit = decode_commit(key, stored.data)
        except ObjectNotFound:
            return []  # a hole in the chain is seen by its law
        except FormatError as error:
            return [_found(Violation(15, str(error), number))]
        header = commit.header
        whole = Committed(
            header.commit, header.commit_id, header.at, commit.events, header.previous,
            commit.chain, header.epoch, stored.modified_at, header.clock,
        )  # fmt: skip
        rows = [_found(violation) for violation in invariants.log_is_a_chain([whole])]
        line = msgspec.json.encode(replace(whole, events=()))
        rows += [(scope, "", number, line) for scope in (CHAIN, TIMES)]
        for event in commit.events:
            rows += self._of(event)
        return rows

    def _of(self, event: Event) -> Iterator[Row]:
        if event.__class__ in JOB_EVENTS and event.life < position_of(self.asked.floor, 0):  # type: ignore[union-attr]
            return  # it began in what was vacuumed: nobody can tell what it may do
        if isinstance(event, Configured) and self.asked.capabilities is None:
            yield TIMES, "", -event.position, encode_event(event)
        line = b""
        for name, scope in SCOPES.items():
            if name in self.asked.scopes_left_out:
                continue
            if event.__class__ in scope.events and not (name == RUNS and self._began_before(event)):
                line = line or encode_event(_slim(event))
                subject = [getattr(event, field) for field in scope.subject]
                yield name, _text(subject), event.position, line
        if isinstance(event, Imported) and ORDER not in self.asked.scopes_left_out:
            # Its rows wait in several lanes, and are numbered over all of them.
            segments = [segment for part in event.objects for segment in part.segments]
            for lane in {(event.tenant, segment.queue, segment.type) for segment in segments}:
                yield ORDER, _text(lane), event.position, line

    def _began_before(self, event: Event) -> bool:
        """Whether an event of a run belongs to an import that may have been vacuumed."""
        if isinstance(event, Admitted):
            return event.source < position_of(self.asked.floor, 0)
        return isinstance(event, ImportAdvanced) and self.asked.floor > FIRST_SLOT


def _text(subject: Sequence[object]) -> str:
    return msgspec.json.encode(subject).decode()


def _slim(event: Event) -> Event:
    """Without what is for handlers and callers: no law looks at it."""
    if isinstance(event, Adopted):
        return replace(event, payload=ABSENT, result=ABSENT, meta=None)
    if isinstance(event, Enqueued):
        return replace(event, payload=ABSENT, meta=None)
    if isinstance(event, Completed):
        return replace(event, result=ABSENT, meta=None)
    return event


def _kept(job: Job) -> bytes:
    return msgspec.json.encode(Kept(replace(job, payload=ABSENT, result=ABSENT)))


def _found(violation: Violation) -> Row:
    return FOUND, "", violation.commit or 0, msgspec.json.encode(violation)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)
