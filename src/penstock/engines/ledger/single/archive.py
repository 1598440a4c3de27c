"""Where layout `single` puts what `queue.json` does not have to hold: hourly folders of objects.

A job is archived only after its end was committed, and leaves `queue.json` by a later commit. If
that commit is lost the job is archived again, so readers keep, of several records of one life,
the one with the highest ending. The same goes for older events of no job: they are kept in the
bytes of a commit, and one that is there twice is the same event.

Each line says how many there are and ends with a digest of what stands before it, so that nothing
altered or cut short is taken for what happened. Lines from before that have neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.ledger.names import ARCHIVE, ASIDE
from penstock.errors import Corrupt, ObjectNotFound
from penstock.kernel.events import Event, JobEvent, commit_of
from penstock.kernel.job import Job
from penstock.ports.store import ObjectStore, Overwrite
from penstock.wire.commit import CHAIN_START, decode_commit, encode_commit
from penstock.wire.level import UNREADABLE, digest


class ArchivedJob(Struct, frozen=True):
    tenant: str
    id: str
    life: int
    ending_commit: int
    job: Job
    events: list[JobEvent]
    records: int = 0
    """How many stand in its object; 0: from before that was said."""


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(ArchivedJob)
_DIGEST: Final = b',"digest":"'
_DIGEST_END: Final = b'"}'


class Archive:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def write(
        self, leaving: Sequence[tuple[Job, list[JobEvent]]], commit_id: str, at: float
    ) -> None:
        records = [
            ArchivedJob(
                job.tenant, job.id, job.life, commit_of(job.trail[-1]), job, events, len(leaving)
            )
            for job, events in leaving
        ]
        key = _key(ARCHIVE, commit_id, at)
        await self._store.put(key, b"".join(map(_line, records)), Overwrite())

    async def write_aside(
        self, events: Sequence[Event], commit: int, commit_id: str, writer: str, at: float
    ) -> None:
        data, _ = encode_commit(
            events, commit=commit, commit_id=commit_id, writer=writer, at=at, previous=CHAIN_START
        )
        await self._store.put(_key(ASIDE, commit_id, at), data, Overwrite())

    async def read_aside(self) -> list[Event]:
        """Events of no job that were set aside; some perhaps more than once."""
        keys = [entry.key async for entry in self._store.list(ASIDE)]
        return [event for key in keys for event in await self._events(key)]

    async def read(self) -> list[ArchivedJob]:
        """Every archived life once, by the position at which it began."""
        newest: dict[tuple[str, str, int], ArchivedJob] = {}
        async for entry in self._store.list(ARCHIVE):
            for record in await self._records(entry.key):
                identity = (record.tenant, record.id, record.life)
                known = newest.get(identity)
                if known is None or record.ending_commit > known.ending_commit:
                    newest[identity] = record
        return sorted(newest.values(), key=lambda record: record.life)

    async def _events(self, key: str) -> list[Event]:
        async def read() -> list[Event]:
            return decode_commit(key, (await self._store.get(key)).data).events

        return await again_if_bad(read)

    async def _records(self, key: str) -> list[ArchivedJob]:
        return await again_if_bad(lambda: self._read(key))

    async def _read(self, key: str) -> list[ArchivedJob]:
        try:
            data = (await self._store.get(key)).data
        except ObjectNotFound:
            return []
        try:
            records = _decoder.decode_lines(data)
        except UNREADABLE as error:
            raise Corrupt(key, f"it can't be read ({error})") from error
        for line, record in zip(data.splitlines(), records, strict=False):
            if record.records not in (0, len(records)):
                raise Corrupt(key, f"of its {record.records} records {len(records)} are there")
            if record.records and not _is_intact(line):
                raise Corrupt(key, "a digest is not that of its line: truncated or altered")
        return records


def _key(folder: str, commit_id: str, at: float) -> str:
    """The commit id makes the name ours alone: writing it twice is writing the same."""
    hour = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H")
    return f"{folder}{hour}/{commit_id}.jsonl"


def _line(record: ArchivedJob) -> bytes:
    text = _encoder.encode(record).removesuffix(b"}")
    return b"".join((text, _DIGEST, digest(text).encode(), _DIGEST_END, b"\n"))


def _is_intact(line: bytes) -> bool:
    text, _, said = line.rpartition(_DIGEST)
    return said == digest(text).encode() + _DIGEST_END
