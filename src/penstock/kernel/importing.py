"""The decisions about imports: publishing a run, admitting its jobs, enqueuing its rows, giving up.

Like those in `decide` they look and change nothing; `batch` installs the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

import msgspec

from penstock.errors import RunAborted, RunPublished, RunStaged, RunUnknown
from penstock.kernel.commands import (
    AbortImport,
    AdvanceImport,
    ImportProgress,
    ImportReceipt,
    PublishImport,
    StageImport,
    Submission,
)
from penstock.kernel.decide import Moment
from penstock.kernel.events import (
    SYSTEM_TENANT,
    Admitted,
    ImportAborted,
    ImportAdvanced,
    Imported,
    ImportStaged,
)
from penstock.kernel.imports import StagedRun
from penstock.kernel.manifest import ChunkPlace, Chunks, ImportObject, Row, SegmentRecord
from penstock.kernel.segments import Segment, id_of
from penstock.kernel.settings import with_defaults
from penstock.kernel.state import QueueState

ROWS_PER_BATCH: Final = 4_000
BYTES_PER_BATCH: Final = 4 * 1024 * 1024
"""A batch of a staged run ends with the chunk that reaches either."""

_TAKEN: Final = "+"
"""What is appended to the id of a row whose id somebody had taken before it was imported."""


def publish(
    state: QueueState, command: PublishImport, now: Moment
) -> list[Imported] | ImportReceipt:
    """One event for each tenant that gets jobs, so that nobody sees another's."""
    if command.run in state.imports.staged:
        raise RunStaged(command.run)
    if _is_published(state, command):
        return _published_before(state, command.run)
    # An empty run is remembered as well.
    parts = _by_tenant(command.objects) or [(SYSTEM_TENANT, ())]
    return [
        _imported(command, tenant, objects, now.position + index, now.at)
        for index, (tenant, objects) in enumerate(parts)
    ]


def stage(state: QueueState, command: StageImport, now: Moment) -> ImportStaged | ImportProgress:
    """How far it is, where it or the same batch of its query was staged before."""
    staged = _staged_before(state, command)
    if staged is not None:
        return ImportProgress(staged.run, staged.reached, staged.rows)
    if _is_published(state, command):
        jobs = _published_before(state, command.run).jobs
        return ImportProgress(command.run, jobs, jobs, is_new=False)
    objects = tuple(command.objects)
    return ImportStaged(
        now.position, now.at, SYSTEM_TENANT, command.run, _rows(objects), objects, command.query,
        command.batch,
    )  # fmt: skip


def advance(
    state: QueueState, command: AdvanceImport, chunks: Chunks
) -> tuple[list[tuple[str, Submission]], int] | ImportProgress:
    """What is to be enqueued, for whom, and the row that is reached then; or how far it is."""
    staged = state.imports.staged.get(command.run)
    if staged is None:
        known = state.imports.runs.get(command.run)
        if known is None:
            raise RunUnknown(command.run)
        if known.status == "aborted":
            raise RunAborted(command.run)
        return ImportProgress(command.run, known.jobs, known.jobs)
    if command.start < staged.reached:
        return ImportProgress(staged.run, staged.reached, staged.rows)
    jobs: list[tuple[str, Submission]] = []
    reached, size_bytes = staged.reached, 0
    for record, place in _chunks_from(staged, staged.reached):
        rows = chunks(place)
        jobs += [
            (record.tenant, _submission(staged.run, record, place.first + index, row))
            for index, row in enumerate(rows)
        ]
        reached, size_bytes = place.first + place.rows, size_bytes + place.size_bytes
        if len(jobs) >= ROWS_PER_BATCH or size_bytes >= BYTES_PER_BATCH:
            break
    return jobs, reached


def advanced(run: str, reached: int, now: Moment) -> ImportAdvanced:
    return ImportAdvanced(now.position, now.at, SYSTEM_TENANT, run, reached)


def abort(state: QueueState, command: AbortImport, now: Moment) -> ImportAborted | None:
    """None: it was aborted before."""
    record = state.imports.runs.get(command.run)
    if record is None:
        return ImportAborted(now.position, now.at, SYSTEM_TENANT, command.run)
    if record.status == "published":
        raise RunPublished(command.run)
    return None


def admit(
    state: QueueState, segment: Segment, place: ChunkPlace, rows: Iterable[Row], now: Moment
) -> Iterator[Admitted]:
    """One event for each of these rows that waits; the caller installs each as it comes."""
    source, record = segment.source, segment.record
    for number, row in enumerate(rows, start=place.first):
        if not segment.holds(number):
            continue
        id = id_of(source.run, number)
        while state.find(source.tenant, id, now.at) is not None:
            id += _TAKEN
        yield Admitted(
            now.position, now.at, source.tenant, record.queue, record.type, id, now.position,
            max(row.run_at or 0.0, source.at), row.payload, row.codec, None, record.priority,
            *with_defaults(row, state.settings), None, None, row.meta, row.trace,
            None, source.at, source.run, source.position, number,
        )  # fmt: skip


def _imported(
    command: PublishImport, tenant: str, objects: tuple[ImportObject, ...], position: int, at: float
) -> Imported:
    rows = _rows(objects)
    return Imported(position, at, tenant, command.run, rows, objects, command.query, command.batch)


def _staged_before(state: QueueState, command: StageImport) -> StagedRun | None:
    staged = state.imports.staged
    if command.query is not None and command.run not in staged:
        batch = (command.query, command.batch)
        return next((run for run in staged.values() if (run.query, run.batch) == batch), None)
    return staged.get(command.run)


def _is_published(state: QueueState, command: PublishImport | StageImport) -> bool:
    imports = state.imports
    record = imports.runs.get(command.run)
    if record is not None and record.status == "aborted":
        raise RunAborted(command.run)
    if command.query is not None and command.batch is not None:
        highest = imports.queries.get(command.query)
        if highest is not None and command.batch <= highest:
            return True
    return record is not None


def _published_before(state: QueueState, run: str) -> ImportReceipt:
    record = state.imports.runs.get(run)
    return ImportReceipt(run, 0 if record is None else record.jobs, "already published")


def _by_tenant(
    objects: Iterable[ImportObject],
) -> list[tuple[str, tuple[ImportObject, ...]]]:
    """The objects as each tenant has to see them."""
    tenants: dict[str, list[ImportObject]] = {}
    for object in objects:
        theirs: dict[str, list[SegmentRecord]] = {}
        for segment in object.segments:
            if segment.chunks:
                nameless = msgspec.structs.replace(segment, tenant="")
                theirs.setdefault(segment.tenant, []).append(nameless)
        for tenant, segments in theirs.items():
            part = ImportObject(object.key, object.digest, tuple(segments))
            tenants.setdefault(tenant, []).append(part)
    return [(tenant, tuple(parts)) for tenant, parts in sorted(tenants.items())]


def _rows(objects: Iterable[ImportObject]) -> int:
    return sum(segment.rows for object in objects for segment in object.segments)


def _chunks_from(staged: StagedRun, reached: int) -> Iterator[tuple[SegmentRecord, ChunkPlace]]:
    first = 0
    for object in staged.objects:
        for record in object.segments:
            offsets = accumulate((c.size_bytes for c in record.chunks), initial=record.offset)
            for chunk, offset in zip(record.chunks, offsets, strict=False):
                if first >= reached:
                    yield (
                        record,
                        ChunkPlace(
                            object.key, object.digest, offset, chunk.size_bytes, first, chunk.rows
                        ),
                    )
                first += chunk.rows


def _submission(run: str, record: SegmentRecord, number: int, row: Row) -> Submission:
    return Submission(
        row.id or id_of(run, number), record.type, row.payload, row.codec, None, record.queue,
        record.priority, 0.0, row.run_at, row.max_attempts, row.retry, row.timeout_seconds, row.key,
        row.unique_seconds, row.meta, row.trace, id_of(run, number),
    )  # fmt: skip
