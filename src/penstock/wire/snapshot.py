"""The live state as bytes, in canonical form: equal states have equal bytes.

A checkpoint is one head line and then one job a line, by the position at which its life began.
Layout `single` stores the same overview in one readable object, beside its jobs' stories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import Corrupt
from penstock.kernel.departures import Departed
from penstock.kernel.imports import RunRecord, StagedRun
from penstock.kernel.job import Job, State
from penstock.kernel.manifest import SegmentRecord
from penstock.kernel.moves import Move
from penstock.kernel.segments import Segment, Source
from penstock.kernel.settings import DEFAULT_SETTINGS, Settings
from penstock.kernel.stamps import Stamp, stamp_of
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Hold, QueueCounts
from penstock.wire.level import (
    UNREADABLE,
    digest,
    level_of,
    require_known,
    require_signature,
    signed,
)

JOBS_PER_SLICE: Final = 1_000
"""How many jobs are encoded before others get a turn."""


class KeyRecord(Struct, frozen=True, omit_defaults=True):
    queue: str
    type: str
    key: str
    id: str
    life: int
    until: float | None = None


class QueueRecord(Struct, frozen=True, omit_defaults=True):
    queue: str
    now: dict[State, int]
    left: dict[State, int] = {}
    paused: bool = False


class DepartedRecord(Struct, frozen=True, omit_defaults=True):
    id: str
    until: float
    operations: tuple[str, ...] = ()


class TenantRecord(Struct, frozen=True, omit_defaults=True):
    tenant: str
    queues: list[QueueRecord] = []
    keys: list[KeyRecord] = []
    departed: list[DepartedRecord] = []


class OpenSegment(Struct, frozen=True, omit_defaults=True):
    """A segment that has unadmitted rows."""

    key: str
    digest: str
    record: SegmentRecord
    first: int
    reached: int
    ahead: list[int] = []


class SourceRecord(Struct, frozen=True, omit_defaults=True):
    tenant: str
    run: str
    position: int
    at: float
    segments: list[OpenSegment]


class Overview(Struct, frozen=True, omit_defaults=True):
    """Everything in the state that is not a job."""

    settings: Settings = DEFAULT_SETTINGS
    tenants: list[TenantRecord] = []
    consumers: dict[str, tuple[int, float]] = {}
    swept_before: float = 0.0
    released: dict[str, float] = {}
    checkpoint_commit: int = 0
    checkpoint_bytes: int = 0
    runs: dict[str, RunRecord] = {}
    queries: dict[str, int] = {}
    sources: list[SourceRecord] = []
    staged: list[StagedRun] = []
    moves: tuple[Move, ...] = ()


class CheckpointHead(Struct, frozen=True, omit_defaults=True):
    format: int
    commit: int
    chain: str
    at: float
    jobs: int
    body: str
    overview: Overview
    clock: float | None = None
    """What the writer of that commit took for the time, where `at` is ahead of it."""

    @property
    def stamp(self) -> Stamp:
        return stamp_of(self.at, self.clock)


_encoder: Final = msgspec.json.Encoder()
_head_decoder: Final = msgspec.json.Decoder(CheckpointHead)
_job_decoder: Final = msgspec.json.Decoder(Job)
_level_decoder: Final = msgspec.json.Decoder(dict[str, object])


def overview(state: QueueState) -> Overview:
    departed = _departed_by_tenant(state)
    names = sorted({*state.tenants, *departed})
    tenants = (_tenant_record(state, name, departed.get(name, [])) for name in names)
    return Overview(
        settings=state.settings,
        tenants=[one for one in tenants if one.queues or one.keys or one.departed],
        consumers=dict(sorted(state.consumers.items())),
        swept_before=state.swept_before,
        released=dict(sorted(state.released.items())),
        checkpoint_commit=state.checkpoint_commit,
        checkpoint_bytes=state.checkpoint_bytes,
        runs=dict(sorted(state.imports.runs.items())),
        queries=dict(sorted(state.imports.queries.items())),
        sources=_source_records(state),
        staged=sorted(state.imports.staged.values(), key=lambda staged: staged.run),
        moves=state.moves,
    )


def all_jobs(state: QueueState) -> list[Job]:
    """A consistent picture: jobs are values, so the list does not change under its holder."""
    return [job for tenancy in state.tenants.values() for job in tenancy.jobs.values()]


def canonical(jobs: list[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: job.life)


def job_slices(jobs: Sequence[Job]) -> Iterator[bytes]:
    """The encoded lines of many jobs, a slice at a time."""
    for start in range(0, len(jobs), JOBS_PER_SLICE):
        yield _encoder.encode_lines(jobs[start : start + JOBS_PER_SLICE])


def encode_checkpoint(
    parts: Overview,
    jobs: int,
    body: bytes,
    *,
    commit: int,
    chain: str,
    at: float,
    clock: float | None = None,
    level: int | None = None,
) -> bytes:
    level = level_of(parts.moves) if level is None else level
    head = CheckpointHead(level, commit, chain, at, jobs, digest(body), parts, clock)
    return signed(_encoder.encode(head)) + b"\n" + body


def checkpoint_of(
    state: QueueState,
    *,
    commit: int,
    chain: str,
    at: float,
    clock: float | None = None,
    level: int | None = None,
) -> bytes:
    """The whole checkpoint in one go, for small states, tests and vacuum's re-folding."""
    jobs = canonical(all_jobs(state))
    body = b"".join(job_slices(jobs))
    parts = overview(state)
    return encode_checkpoint(
        parts, len(jobs), body, commit=commit, chain=chain, at=at, clock=clock, level=level
    )


def decode_checkpoint(key: str, data: bytes) -> tuple[CheckpointHead, list[Job]]:
    line, _, body = data.partition(b"\n")
    require_signature(key, line)
    try:
        head = _head_decoder.decode(line)
    except UNREADABLE as error:
        _complain_of_level(key, line)
        raise Corrupt(key, f"its head can't be read ({error})") from error
    require_known(key, head.format)
    if digest(body) != head.body:
        raise Corrupt(key, "its body is not what its head says: truncated or altered")
    jobs = _job_decoder.decode_lines(body)
    if len(jobs) != head.jobs:
        raise Corrupt(key, f"it has {len(jobs)} jobs, its head says {head.jobs}")
    return head, jobs


def restore(parts: Overview, jobs: Sequence[Job], at: float) -> QueueState:
    """The state that the parts were taken from."""
    state = QueueState()
    state.settings = parts.settings
    state.consumers = dict(parts.consumers)
    state.swept_before = parts.swept_before
    state.moves = parts.moves
    state.released = dict(parts.released)
    state.checkpoint_commit = parts.checkpoint_commit
    state.checkpoint_bytes = parts.checkpoint_bytes
    state.pending.at = at
    for tenant in parts.tenants:
        _restore_tenant(state, tenant)
    _restore_imports(state, parts)
    for job in jobs:
        # Views into the checkpoint's buffer would keep all of it alive.
        job.payload = job.payload.copy()
        job.result = job.result.copy()
        state.adopt(job)
    for tenancy in state.tenants.values():
        tenancy.lives.gather(tenancy.jobs.values())
    return state


def _departed_by_tenant(state: QueueState) -> dict[str, list[DepartedRecord]]:
    records: dict[str, list[DepartedRecord]] = {}
    for tenant, id, departed in state.departures:
        record = DepartedRecord(id, departed.until, departed.operations)
        records.setdefault(tenant, []).append(record)
    for of_tenant in records.values():
        of_tenant.sort(key=lambda record: record.id)
    return records


def _tenant_record(state: QueueState, name: str, departed: list[DepartedRecord]) -> TenantRecord:
    tenancy = state.tenancy(name)
    names = sorted({*tenancy.counts, *tenancy.paused})
    queues = [_queue_record(queue, tenancy.counts, queue in tenancy.paused) for queue in names]
    return TenantRecord(
        tenant=name,
        queues=[record for record in queues if record.now or record.paused],
        keys=[
            KeyRecord(*scope, hold.id, hold.life, hold.until)
            for scope, hold in sorted(tenancy.keys.items(), key=lambda item: item[0])
        ],
        departed=departed,
    )


def _queue_record(queue: str, counts: dict[str, QueueCounts], paused: bool) -> QueueRecord:
    known = counts.get(queue) or QueueCounts()
    return QueueRecord(queue, _without_zeros(known.now), _without_zeros(known.left), paused)


def _without_zeros(counts: dict[State, int]) -> dict[State, int]:
    return {state: count for state, count in sorted(counts.items()) if count}


def _restore_tenant(state: QueueState, record: TenantRecord) -> None:
    tenancy = state.tenancy(record.tenant)
    for queue in record.queues:
        counts = tenancy.queue_counts(queue.queue)
        counts.now.update(queue.now)
        counts.left.update(queue.left)
        if queue.paused:
            tenancy.lanes.pause(queue.queue)
    for key in record.keys:
        scope = (key.queue, key.type, key.key)
        state.adopt_hold(record.tenant, scope, Hold(key.id, key.life, key.until))
    for one in record.departed:
        departed = Departed(one.until, one.operations)
        state.departures.remember(record.tenant, one.id, departed)


def _source_records(state: QueueState) -> list[SourceRecord]:
    sources = sorted(state.imports.sources.values(), key=lambda source: source.position)
    return [
        SourceRecord(
            source.tenant,
            source.run,
            source.position,
            source.at,
            [_open_segment(segment) for segment in source.segments],
        )
        for source in sources
    ]


def _open_segment(segment: Segment) -> OpenSegment:
    return OpenSegment(
        segment.key, segment.digest, segment.record, segment.first, segment.reached,
        sorted(segment.ahead),
    )  # fmt: skip


def _restore_imports(state: QueueState, parts: Overview) -> None:
    imports = state.imports
    imports.runs.update(parts.runs)
    imports.queries.update(parts.queries)
    imports.staged.update((staged.run, staged) for staged in parts.staged)
    for record in parts.sources:
        source = Source(record.tenant, record.run, record.position, record.at)
        imports.sources[record.tenant, record.run] = source
        for open in record.segments:
            segment = Segment(source, open.key, open.digest, open.record, open.first)
            segment.ahead.update(open.ahead)
            segment.go_to(open.reached)
            imports.open(segment)


def _complain_of_level(key: str, line: bytes) -> None:
    try:
        level = _level_decoder.decode(line).get("format")
    except UNREADABLE:
        return
    if isinstance(level, int):
        require_known(key, level)
