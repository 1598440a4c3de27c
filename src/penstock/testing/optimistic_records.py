"""Records in memory, in a store that locks nothing: it compares versions when it writes.

What Redis and object stores do, without either. Between finding and writing every turn lets others
run, so that turns of several handles overlap, lose to each other and are taken again; candidates
are not hidden, so they do so often.

    shared = SharedRecords()
    queue = penstock.open(store=OptimisticRecords(shared))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from penstock.engines.records.capabilities import record_capabilities
from penstock.kernel.events import commit_of
from penstock.kernel.job import State
from penstock.kernel.tenancy import Scope
from penstock.ports.backend import Capabilities
from penstock.ports.counters import Count, Survey, Waiting
from penstock.ports.listing import Page, PageAsked
from penstock.ports.records import (
    NOTHING,
    Ask,
    Change,
    Decide,
    Departure,
    Due,
    Found,
    Front,
    Head,
    HoldChange,
    KeyHold,
    Need,
    Record,
    Remembered,
    Shelf,
    Stored,
    Unheard,
    Wanted,
)
from penstock.ports.store import ObjectStore
from penstock.ports.wakes import Heard, Waiter, Wake
from penstock.runtime.tasks import Signal
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import turns

_TURNS_BETWEEN = 3
"""How often others may run between what a turn finds and what it writes."""


class SharedRecords:
    """What all handles on one store have in common."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.is_made = False
        self.records: dict[tuple[str, str], tuple[Record, int]] = {}
        self.holds: dict[tuple[str, Scope], KeyHold] = {}
        self.counts: Counter[tuple[str, str, State, str]] = Counter()
        self.commits: dict[int, tuple[float, bytes]] = {}
        self.departures: dict[tuple[str, str, int], Departure] = {}
        self.remembered: dict[tuple[str, str], Remembered] = {}
        self.sides: dict[str, float | None] = {}
        self.charter, self.charter_version = b"", 0
        self.number = self.commit = self.completed = 0
        self.at, self.clock, self.first_commit = 0.0, 0.0, 1
        self.under_way: set[int] = set()
        """Numbers that were given to turns of which nobody knows yet what becomes of them."""
        self.side = MemoryStore() if now is None else MemoryStore(now=now)
        self.changed = Signal()
        self.conflicts = 0
        self.waiters: dict[str, tuple[Wanted, OptimisticRecords]] = {}
        """Those who wait, the longest waiting first."""

    def wake(self, wakes: Sequence[Wake] | None) -> None:
        """Tells those whom a change names; None: all."""
        handles = {id(handle): handle for _, handle in self.waiters.values()}
        for handle in handles.values() if wakes is None else ():
            handle.told = msgspec.structs.replace(handle.told, is_for_all=True)
        for wake in wakes or ():
            matching = [name for name, (wanted, _) in self.waiters.items() if _is_for(wake, wanted)]
            for name in matching[: wake.jobs]:
                _, handle = self.waiters.pop(name)
                told = [*handle.told.wakes, (name.partition("/")[2], wake)]
                handle.told = msgspec.structs.replace(handle.told, wakes=told)
        self.changed.set()

    @property
    def readable(self) -> int:
        return min([self.commit, *(number - 1 for number in self.under_way)])


class OptimisticRecords:
    def __init__(self, shared: SharedRecords, *, batches_at_once: int = 1) -> None:
        self.side: ObjectStore = shared.side
        self._shared = shared
        self._batches_at_once = batches_at_once
        self._seen = -1
        self.told = Heard()

    @property
    def capabilities(self) -> Capabilities:
        return record_capabilities(
            "optimistic records",
            push=True,
            order="strict",
            durability="relaxed",
            multi_process=False,
            batches_at_once=self._batches_at_once,
        )

    @property
    def has_own_clock(self) -> bool:
        return False

    async def exists(self) -> bool:
        return self._shared.is_made

    async def open(self) -> None:
        self._shared.is_made = True

    async def close(self) -> None:
        """The records belong to all handles."""

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        shared = self._shared
        found = self._find(ask(await self.head()))
        if found is NOTHING:
            return decide(found) is None
        shared.under_way.add(found.commit)
        try:
            await turns(_TURNS_BETWEEN)
            change = decide(found)
            if change is None:
                return True
            await turns(_TURNS_BETWEEN)
            if not self._is_as_found(change):
                shared.conflicts += 1
                return False
            self._write(change)
            return True
        finally:
            shared.under_way.discard(found.commit)
            shared.changed.set()

    async def head(self) -> Head:
        one = self._shared
        return Head(
            one.commit,
            one.at,
            one.completed,
            one.charter,
            one.charter_version,
            one.readable,
            one.clock,
        )

    async def listing(self, asked: PageAsked) -> Page:
        found = sorted(
            (record.life, record.body)
            for record in self._of(asked.tenant)
            if record.shelf in asked.shelves
            and asked.queue in (None, record.queue)
            and asked.type in (None, record.type)
            and asked.after < record.life <= asked.until
        )
        page = found[: asked.count]
        return Page([body for _, body in page], page[-1][0] if len(found) > len(page) else None)

    async def survey(self, tenant: str, at: float) -> Survey:
        counts = self._shared.counts
        states = {(queue, state) for owner, queue, state, _ in counts if owner == tenant}
        pending: dict[tuple[str, str], list[float]] = {}
        for record in self._of(tenant):
            if record.shelf is Shelf.PENDING:
                pending.setdefault((record.queue, record.type), []).append(record.at)
        return Survey(
            self._shared.commit,
            [
                Count(
                    queue, state, *(counts[tenant, queue, state, kind] for kind in ("now", "left"))
                )
                for queue, state in sorted(states)
            ],
            [
                Waiting(queue, type, len(times), min(times), sum(time > at for time in times))
                for (queue, type), times in pending.items()
            ],
        )

    async def tenants(self) -> list[str]:
        return sorted({tenant for tenant, _, _, _ in self._shared.counts})

    async def lapsing(self, tenant: str, after: float) -> list[KeyHold]:
        held = [one for (owner, _), one in self._shared.holds.items() if owner == tenant]
        lapsing = [one for one in held if one.lapses_at is not None and one.lapses_at > after]
        return sorted(lapsing, key=lambda one: one.scope)

    async def next_due(self, wanted: Wanted, waiter: Waiter | None = None) -> Due:
        pending = [record.at for record in self._of(wanted.tenant) if _is_wanted(record, wanted)]
        waiters, is_due = self._shared.waiters, any(at <= wanted.due_by for at in pending)
        name = f"{id(self)}/{waiter.name}" if waiter else ""
        if waiter is not None and (waiter.stays or not is_due):
            waiters.setdefault(name, (wanted, self))
        ahead = list(waiters).index(name) if name in waiters else len(waiters)
        records = (record for record, _ in self._shared.records.values())
        leases = [record.at for record in records if record.shelf is Shelf.RUNNING]
        return Due(min(pending, default=None), min(leases, default=None), ahead=ahead)

    async def wake(self, wakes: Sequence[Wake]) -> None:
        self._shared.wake(wakes)

    async def departure(self, tenant: str, id: str, life: int | None) -> Departure | None:
        lives = [
            one
            for one in self._shared.departures.values()
            if (one.tenant, one.id) == (tenant, id) and life in (None, one.life)
        ]
        return max(lives, key=lambda one: one.life, default=None)

    async def remembered(self, tenant: str, after: float) -> list[Remembered]:
        known = sorted(self._shared.remembered.items())
        return [one for (of, _), one in known if of == tenant and one.departed.until > after]

    async def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        one = self._shared
        numbers = sorted(number for number in one.commits if after < number <= one.readable)
        return [(number, one.commits[number][1]) for number in numbers[:count]]

    async def commit(self, number: int) -> bytes | None:
        found = self._shared.commits.get(number)
        return found and found[1]

    async def first_commit(self) -> int:
        return self._shared.first_commit

    async def changed(self, timeout_seconds: float) -> Heard:
        if self._shared.readable == self._seen and self.told == Heard():
            await self._shared.changed.wait(timeout_seconds)
        is_news, self._seen = self._seen != self._shared.readable, self._shared.readable
        told, self.told = self.told, Heard()
        return msgspec.structs.replace(told, is_news=is_news)

    async def sides(self) -> dict[str, float | None]:
        return dict(self._shared.sides)

    async def vacuum(self, written_before: float, below: int, released_before: float) -> int:
        one = self._shared
        young = [number for number, (at, _) in one.commits.items() if at >= written_before]
        first = min([below, *young])
        gone = [number for number in one.commits if number < first]
        for number in gone:
            del one.commits[number]
        if gone:
            one.first_commit = max(one.first_commit, first)
        one.departures = {
            id: left
            for id, left in one.departures.items()
            if commit_of(left.trail[-1] if left.trail else left.life) >= one.first_commit
        }
        one.sides = {
            key: at for key, at in one.sides.items() if at is None or at >= released_before
        }
        return len(gone)

    def _find(self, need: Need) -> Found:
        stored = self._shared.records
        found: dict[tuple[str, str], None] = {id: None for id in need.ids if id in stored}
        for front in need.fronts:
            found.update(_keyed(self._front(front)))
        for tenant, claim in need.operations:
            found.update(_keyed(record for record in self._of(tenant) if record.claim == claim))
        for wanted in need.wanted:
            due = [record for record in self._of(wanted.tenant) if _is_wanted(record, wanted)]
            first = sorted(
                (record for record in due if record.at <= wanted.due_by),
                key=lambda record: (record.priority, record.at, record.life),
            )
            found.update(_keyed(first[: wanted.count]))
        if need.may_be_idle and not found:
            return NOTHING
        for front in need.riding:
            found.update(_keyed(self._front(front)))
        scopes = dict.fromkeys(need.keys)
        for record, _ in (stored[id] for id in found):
            if record.key is not None:
                scopes[record.tenant, (record.queue, record.type, record.key)] = None
        holds = [self._shared.holds[scope] for scope in scopes if scope in self._shared.holds]
        found.update({id: None for held in holds if (id := (held.tenant, held.hold.id)) in stored})
        self._shared.number += 1
        records = [
            Stored(record.life, version, record.shelf, record.body)
            for record, version in (stored[id] for id in found)
        ]
        known = self._shared.remembered
        departed = [known[name] for name in need.departed if name in known]
        return Found(self._shared.number, records, holds, departed)

    def _front(self, front: Front) -> list[Record]:
        records = (record for record, _ in self._shared.records.values())
        shelf = sorted(
            (record for record in records if record.shelf is front.shelf),
            key=lambda record: (record.at, record.life),
        )
        until = sum(record.at <= front.until for record in shelf)
        return shelf[: min(max(until, front.least), front.most)]

    def _is_as_found(self, change: Change) -> bool:
        versions = {id: version for id, (_, version) in self._shared.records.items()}
        gone = [(one.tenant, one.id, one.version) for one in change.removals]
        if any(versions.pop((tenant, id), None) != version for tenant, id, version in gone):
            return False
        return (
            change.charter_found == self._shared.charter_version
            and all(
                put.found == versions.get((put.record.tenant, put.record.id)) for put in change.puts
            )
            and all(map(self._is_held_as_found, change.holds))
            and all(map(self._is_remembered_as_found, change.unheard))
        )

    def _is_held_as_found(self, one: HoldChange) -> bool:
        held = self._shared.holds.get((one.tenant, one.scope))
        return one.found == (None if held is None else held.hold.life)

    def _is_remembered_as_found(self, one: Unheard) -> bool:
        known = self._shared.remembered.get((one.tenant, one.id))
        return one.departed == (None if known is None else known.departed)

    def _write(self, change: Change) -> None:
        one = self._shared
        for removal in change.removals:
            del one.records[removal.tenant, removal.id]
        for put in change.puts:
            one.records[put.record.tenant, put.record.id] = put.record, change.commit
        for hold in change.holds:
            if hold.after is None:
                del one.holds[hold.tenant, hold.scope]
            else:
                one.holds[hold.tenant, hold.scope] = hold.after
        for scope, held in list(one.holds.items()):
            if held.lapses_at is not None and held.lapses_at <= change.lapsed_at:
                del one.holds[scope]
        for count in change.counts:
            one.counts[count.tenant, count.queue, count.state, "now"] += count.now
            one.counts[count.tenant, count.queue, count.state, "left"] += count.left
        departures = {(left.tenant, left.id, left.life): left for left in change.departures}
        one.departures.update(departures)
        one.remembered.update({(left.tenant, left.id): left for left in change.remembered})
        one.sides.update(change.sides)
        if change.charter is not None:
            one.charter, one.charter_version = change.charter, change.commit
        one.commits[change.commit] = change.at, change.events
        one.commit = max(one.commit, change.commit)
        if change.at >= one.at:
            one.at, one.clock = change.at, change.clock
        one.completed += change.completed
        one.wake(None if change.charter is not None else change.wakes)

    def _of(self, tenant: str) -> Iterable[Record]:
        return (
            record for (owner, _), (record, _) in self._shared.records.items() if owner == tenant
        )


def _is_wanted(record: Record, wanted: Wanted) -> bool:
    return (
        record.shelf is Shelf.PENDING
        and record.queue not in wanted.paused
        and (wanted.queues is None or record.queue in wanted.queues)
        and (wanted.types is None or record.type in wanted.types)
    )


def _is_for(wake: Wake, wanted: Wanted) -> bool:
    return (
        wake.tenant == wanted.tenant
        and (wanted.queues is None or wake.queue in wanted.queues)
        and (wanted.types is None or wake.type in wanted.types)
    )


def _keyed(records: Iterable[Record]) -> dict[tuple[str, str], None]:
    return {(record.tenant, record.id): None for record in records}
