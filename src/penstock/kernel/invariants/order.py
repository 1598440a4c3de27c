"""The order of claims: lanes of due jobs, rebuilt from the log independently of the engine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from penstock.kernel.events import (
    Admitted,
    Adopted,
    Claimed,
    Enqueued,
    Imported,
    JobEvent,
    Paused,
    Replayed,
    Resumed,
)
from penstock.kernel.invariants.record import (
    ENDS,
    JOB_EVENTS,
    RETURNS,
    Committed,
    Violation,
    about,
)
from penstock.kernel.job import State

_Rank = tuple[int, float, int, int]
"""Priority, when it is due, the position at which its life or its import began, and its row."""


def claims_follow_the_order(
    log: Iterable[Committed], asked: Mapping[str, tuple[str, ...] | None] | None = None
) -> list[Violation]:
    """11. Claims follow the order key among jobs due at that commit (where the order is strict).

    `asked` says which queues each claim, by its operation id, was to take from (None: any, and
    any type); about the others only what holds within one queue and type is known.
    """
    found: list[Violation] = []
    lanes = _Lanes()
    for commit in log:
        for event in commit.events:
            if isinstance(event, Paused | Resumed):
                lanes.turn(event.tenant, event.queue, is_paused=isinstance(event, Paused))
            elif isinstance(event, Imported):
                lanes.bring(event)
            elif event.__class__ not in JOB_EVENTS:
                continue
            elif isinstance(event, Claimed):
                first = lanes.first_before(event, asked or {})
                if first is not None:
                    found.append(about(11, commit, event, f"{first!r} was due and comes before it"))
                lanes.leave(event)
            else:
                lanes.see(event)  # type: ignore[arg-type]  # the set is the union
    return found


class _Lanes:
    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], _Rank] = {}
        self._priorities: dict[tuple[str, str], int] = {}
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        """Of imported jobs: their import and row."""
        self._chunks: dict[int, list[tuple[int, _Chunk, _Lane]]] = {}
        """By import: its chunks, each with its first row."""
        self._lanes: dict[tuple[str, str, str], _Lane] = {}
        self._by_tenant: dict[str, list[_Lane]] = {}
        self._paused: set[tuple[str, str]] = set()

    def turn(self, tenant: str, queue: str, *, is_paused: bool) -> None:
        if is_paused:
            self._paused.add((tenant, queue))
        else:
            self._paused.discard((tenant, queue))

    def see(self, event: JobEvent) -> None:
        job = (event.tenant, event.id)
        if isinstance(event, Enqueued):
            self._priorities[job] = event.priority
            self._places.pop(job, None)
        if isinstance(event, Admitted):
            self._places[job] = (event.source, event.row)
            self._admit(event)
        if isinstance(event, Adopted) and event.state is not State.PENDING:
            return
        if isinstance(event, Enqueued | Replayed) or event.__class__ in RETURNS:
            run_at: float = event.run_at  # type: ignore[union-attr]  # what waits says until when
            place, row = self._places.get(job, (event.life, 0))
            rank = (self._priorities.get(job, 0), run_at, place, row)
            self._waiting[job] = rank
            self._lane(event).push(rank, event.id)
        elif event.__class__ in ENDS:
            self._waiting.pop(job, None)

    def bring(self, event: Imported) -> None:
        """Unadmitted chunks wait as well, each ranked as its first row."""
        row, chunks = 0, self._chunks.setdefault(event.position, [])
        for segment in (segment for part in event.objects for segment in part.segments):
            lane = self._lane_named(event.tenant, segment.queue, segment.type)
            for chunk in segment.chunks:
                run_at = max(chunk.run_at, event.at)
                waiting = _Chunk(chunk.rows)
                lane.unadmitted.append(((segment.priority, run_at, event.position, row), waiting))
                chunks.append((row, waiting, lane))
                row += chunk.rows
            lane.unadmitted.sort(key=lambda entry: entry[0])

    def _admit(self, event: Admitted) -> None:
        chunks = self._chunks.get(event.source, [])
        index = bisect_right(chunks, event.row, key=lambda entry: entry[0]) - 1
        if index < 0:
            return  # a row from nowhere is the third invariant's business
        _, chunk, lane = chunks[index]
        chunk.rows -= 1
        if not chunk.rows:
            lane.unadmitted = [entry for entry in lane.unadmitted if entry[1].rows]

    def leave(self, event: Claimed) -> None:
        self._waiting.pop((event.tenant, event.id), None)

    def first_before(
        self, event: Claimed, asked: Mapping[str, tuple[str, ...] | None]
    ) -> str | None:
        """The job that should have been claimed instead."""
        rank = self._waiting.get((event.tenant, event.id))
        if rank is None:
            return None  # not waiting at all: the fourth invariant's business
        lanes = [self._lane(event)]
        if event.operation in asked:
            queues = asked[event.operation]
            lanes = [
                lane
                for lane in self._by_tenant[event.tenant]
                if (queues is None or lane.queue in queues)
                and (event.tenant, lane.queue) not in self._paused
            ]
        for lane in lanes:
            first = lane.first(event.at, self._waiting)
            if first is not None and first[0] < rank:
                return first[1]
            if lane.has_unadmitted_before(rank, event.at):
                return "an unadmitted job"
        return None

    def _lane(self, event: JobEvent) -> _Lane:
        return self._lane_named(event.tenant, event.queue, event.type)

    def _lane_named(self, tenant: str, queue: str, type: str) -> _Lane:
        name = (tenant, queue, type)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(tenant, queue)
            self._by_tenant.setdefault(tenant, []).append(lane)
        return lane


class _Chunk:
    """How many rows of a chunk are not admitted yet."""

    __slots__ = ("rows",)

    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Lane:
    """Waiting jobs of one queue and type; entries of those that moved on are dropped lazily."""

    def __init__(self, tenant: str, queue: str) -> None:
        self.queue = queue
        self._tenant = tenant
        self._scheduled: list[tuple[float, _Rank, str]] = []
        self._due: list[tuple[_Rank, str]] = []
        self.unadmitted: list[tuple[_Rank, _Chunk]] = []

    def has_unadmitted_before(self, rank: _Rank, at: float) -> bool:
        for ahead, _ in self.unadmitted:
            if ahead >= rank:
                return False
            if ahead[1] <= at:
                return True
        return False

    def push(self, rank: _Rank, id: str) -> None:
        heappush(self._scheduled, (rank[1], rank, id))

    def first(
        self, at: float, waiting: Mapping[tuple[str, str], _Rank]
    ) -> tuple[_Rank, str] | None:
        while self._scheduled and self._scheduled[0][0] <= at:
            _, rank, id = heappop(self._scheduled)
            heappush(self._due, (rank, id))
        while self._due and waiting.get((self._tenant, self._due[0][1])) != self._due[0][0]:
            heappop(self._due)
        return self._due[0] if self._due else None
