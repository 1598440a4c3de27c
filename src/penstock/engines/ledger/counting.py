"""Counts of a ledger's live state, made so that nobody waits for those who look.

A row per queue is made once and kept until something of the queue changes. So whoever looks makes
rows of what has changed since somebody last did; and where that is much, a few at a time between
commits, before the moment that counts. In that moment the rows that are there are taken as they
are, with what is missing. Adding up and sorting comes after it, and for many queues in a thread.
"""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from penstock.engines.listing import named
from penstock.kernel.job import State
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import QueueCounts, Tenancy
from penstock.ports.backend import QueueStats, Stats, TypeStats

ROWS_PER_SLICE: Final = 250
"""How many are made before others get their turn: two or three milliseconds."""
SLICES_MAX: Final = 400
"""Then the rest is made at once: what changes faster than it is counted must end somewhere."""
ROWS_AT_ONCE_MAX: Final = 1_000
"""So many the event loop may add up by itself."""


class Imported(Struct):
    """Of one queue, or one type of it: rows of imports that are not jobs yet."""

    unadmitted: int = 0
    scheduled: int = 0


class Counted(Struct, frozen=True):
    """One tenant's queues as of one moment."""

    rows: list[QueueStats]
    paused: frozenset[str]
    imported: dict[tuple[str, str], Imported]
    """By queue and type."""
    jobs: int
    commit: int
    at: float
    state_bytes: int | None


def make_rows(state: QueueState, tenant: str, most: int = ROWS_PER_SLICE) -> bool:
    """Makes some of the rows that are missing; whether all are there now."""
    tenancy = state.tenants.get(tenant)
    if tenancy is None:
        return True
    missing = ((name, counts) for name, counts in tenancy.counts.items() if counts.view is None)
    some = list(islice(missing, most))
    heads = _ready_heads(state, tenancy) if some and tenancy.heads else {}
    for name, counts in some:
        counts.view = _row(tenancy, name, counts, heads)
    return len(some) < most


def count(
    state: QueueState, tenant: str, commit: int, at: float, state_bytes: int | None
) -> Counted:
    tenancy = state.tenants.get(tenant)
    if tenancy is None:
        return Counted([], frozenset(), {}, 0, commit, at, None)
    make_rows(state, tenant, len(tenancy.counts) + 1)
    return Counted(
        [counts.view for counts in tenancy.counts.values()],
        frozenset(tenancy.paused),
        _imported(state, tenant),
        len(tenancy.jobs),
        commit,
        at,
        state_bytes,
    )


def add_up(counted: Counted) -> Stats:
    rows = {row.queue: row for row in counted.rows}
    totals = dict.fromkeys((state.value for state in State), 0)
    for (queue, type), imported in counted.imported.items():
        row = rows.get(queue) or QueueStats(queue, named({}), 0, 0, 0, False, None)
        rows[queue] = _with_imported(row, type, imported)
    for row in rows.values():
        for state, number in row.totals.items():
            totals[state] += number
    # A queue is one that ever had a job or is paused; what was rolled back leaves an empty row.
    known = [
        row for row in rows.values() if any(row.totals.values()) or row.queue in counted.paused
    ]
    return Stats(
        totals,
        sorted(known, key=lambda row: row.queue),
        counted.jobs,
        counted.commit,
        counted.at,
        sum(imported.unadmitted for imported in counted.imported.values()),
        counted.state_bytes,
    )


def _row(
    tenancy: Tenancy, queue: str, counts: QueueCounts, heads: dict[tuple[str, str], int]
) -> QueueStats:
    """What waits is known by the lanes, which have a number and a head each, and by counters."""
    pending: dict[str, int] = {}
    oldest: dict[str, float] = {}
    for lane in tenancy.lanes.of_queue(queue):
        type = lane.name[1]
        head = lane.first()
        assert head is not None, "an empty lane is let go"
        oldest[type] = min(head[-1].run_at, oldest.get(type, inf))
        # A head of a segment is in a lane, and stands for rows that are counted by themselves.
        pending[type] = pending.get(type, -heads.get((queue, type), 0)) + len(lane)
    scheduled = tenancy.scheduled.get(queue) or {}
    for type, number in scheduled.items():
        pending[type] = pending.get(type, 0) + number
    return QueueStats(
        queue=queue,
        totals=named(counts.now),
        pending=counts.live(State.PENDING),
        scheduled=sum(scheduled.values()),
        running=counts.live(State.RUNNING),
        paused=queue in tenancy.paused,
        oldest_ready_at=min(oldest.values(), default=None),
        types=[
            TypeStats(type, number, oldest.get(type))
            for type, number in sorted(pending.items())
            # All of them may be of an import, but who waits longest is told all the same.
            if number or type in oldest
        ],
    )


def _ready_heads(state: QueueState, tenancy: Tenancy) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for head in tenancy.heads.values():
        if head.run_at <= state.pending.at:
            found[head.queue, head.type] = found.get((head.queue, head.type), 0) + 1
    return found


def _imported(state: QueueState, tenant: str) -> dict[tuple[str, str], Imported]:
    found: dict[tuple[str, str], Imported] = {}
    for segment in state.imports.segments(tenant):
        place = (segment.record.queue, segment.record.type)
        imported = found.setdefault(place, Imported())
        imported.unadmitted += segment.unadmitted
        imported.scheduled += segment.scheduled(state.pending.at)
    return found


def _with_imported(row: QueueStats, type: str, imported: Imported) -> QueueStats:
    number = imported.unadmitted
    types = {one.type: one for one in row.types}
    before = types.get(type) or TypeStats(type, 0, None)
    types[type] = replace(before, pending=before.pending + number)
    totals = {State(state): number for state, number in row.totals.items()}
    totals[State.PENDING] = totals.get(State.PENDING, 0) + number
    return replace(
        row,
        totals=named(totals),
        pending=row.pending + number,
        scheduled=row.scheduled + imported.scheduled,
        unadmitted=row.unadmitted + number,
        types=[types[name] for name in sorted(types) if types[name].pending],
    )
