"""A turn: one command on one job, read, decided and put until the result stands.

    read the task → the kernel decides → put the new entry → put the task → delete the old entry

The put of the task is conditional on what was read, and is the moment at which it happens. If it is
refused, the turn begins again. A crash before it leaves an entry that announces nothing, a crash
after it one that is stale; neither is believed by anybody, and no job is ever without an entry.

What this process has put itself it need not read again to go on from there: the condition says
whether it still stands. But nothing is answered from memory alone: where a turn has nothing to put,
it is decided on what was read for it.

A move closes the queue by the charter, which may be old here, and then puts every task once more,
with a seal. So a turn on what was read before is refused, and what it reads next has a seal that
tells it to look at the charter. That leaves objects that did not exist when the tasks were listed.
Hence whoever has enqueued looks at the charter once more before it answers. If the queue is still
open, then the put came before the closing, thus before the listing: the job has a seal or gets one,
and moves. If not, it is as if it had not been asked: where all have been sealed and the new object
was not, nobody was told of it, and it is taken back. No clock is part of this.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.ahead import Ahead
from penstock.engines.records.tasks.decisions import ASKED_SECONDS_MAX, Decider, Decision, Holding
from penstock.engines.records.tasks.documents import Documents, Kept
from penstock.engines.records.tasks.holders import (
    Holders,
    hold_in,
    is_named,
    may_take_key,
    scope_of,
    scopes_wanted,
)
from penstock.engines.records.tasks.index import Index, old_entry
from penstock.engines.records.tasks.names import task_key, task_name
from penstock.engines.requests import Query, Work
from penstock.errors import Corrupt, MoveProblem, OutcomeUnknown, PenstockError, StoreUnavailable
from penstock.kernel.commands import Adopt, Enqueue, Expire
from penstock.kernel.events import Event, Failed, JobEvent, Retried
from penstock.kernel.job import Job, State
from penstock.kernel.moves import Move
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Scope
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.record import Charter
from penstock.wire.task import KeyObject, Task, decode_task, encode_task

RETRY_SECONDS: Final = 0.002
RETRY_SECONDS_MAX: Final = 0.5
TURNS_LOST_MAX: Final = 200
PATIENCE_TURNS: Final = 6
"""How often a turn waits for another's opening to be settled before it gives that one up."""
Clearance: TypeAlias = Awaitable[bool]
"""Says, once it is known, whether a turn may put what it has decided."""
Found = dict[Scope, Kept[KeyObject] | None]
"""The objects of the keys that a turn may take, as it found them."""
HELD_MAX: Final = 4_096
"""How many running tasks are remembered, to end them without reading them again."""


class CharterReader(Protocol):
    """What turns need of the charter."""

    @property
    def current(self) -> Charter: ...
    @property
    def move(self) -> Move | None: ...
    def is_late(self, task: Task) -> bool: ...
    async def refresh(self) -> None: ...
    async def still_open(self) -> bool: ...
    async def outlive(self, key: str) -> None: ...


class TurnsLost(StoreUnavailable):
    """Nothing was done: others changed the task each time."""


class Turns:
    def __init__(
        self,
        store: ObjectStore,
        services: Services,
        clock: CommitClock,
        decider: Decider,
        index: Index,
        charter: CharterReader,
        tell: Callable[[Sequence[Event]], None],
    ) -> None:
        self.tasks: Documents[Task] = Documents(
            store, services, encode_task, decode_task, stories.shows
        )
        self.holders = Holders(store, services)
        self.ahead = Ahead(store.name, self.tasks, index, clock)
        self._store = store
        self._services = services
        self._clock = clock
        self._decider = decider
        self._index = index
        self._charter = charter
        self._tell = tell
        self._held: OrderedDict[str, Kept[Task]] = OrderedDict()

    async def read(self, tenant: str, id: str, *, only_looks: bool = False) -> Kept[Task] | None:
        """The task as it is now for everybody: an opening that has become true is put first.

        One who `only_looks` gets it as it is stored, and puts nothing.
        """
        key = task_key(task_name(tenant, id))
        kept = await self.tasks.read(key)
        if kept is None:
            return None
        if (kept.document.tenant, kept.document.id) != (tenant, id):
            raise Corrupt(key, "it is that of another job")
        return kept if only_looks else await self.settled(key, kept)

    async def look(self, tenant: str, id: str) -> tuple[Job | None, Kept[Task] | None]:
        """The job, unless it has outlived its retention, and its task; nothing is put for it."""

        def look(state: QueueState, at: float) -> Job | None:
            return state.look(tenant, id, at)

        kept = await self.read(tenant, id, only_looks=True)
        if kept is None:
            return None, None
        return await self.take(tenant, id, Query(look), kept), kept

    async def take(
        self,
        tenant: str,
        id: str,
        work: Work,
        kept: Kept[Task] | None = None,
        *,
        asked_at: float | None = None,
        clearance: Clearance | None = None,
        tries: int = TURNS_LOST_MAX,
    ) -> Any:
        """The answer to a command on one job; it is durable, or was read for this.

        `kept` is the task where it has just been read, `asked_at` when the command came; without
        `clearance` nothing is put. Raises `TurnsLost` if somebody else was faster each time.
        """
        now = await self._time_for(work) if asked_at is None else asked_at
        key = task_key(task_name(tenant, id))
        is_fresh = kept is not None
        if kept is None:
            kept = self._held.pop(key, None)
        is_guess, is_first = kept is None and isinstance(work, Enqueue | Adopt), False
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        for lost in range(tries):
            if kept is None and not is_guess:
                kept, is_fresh = await self.read(tenant, id), True
            if kept is not None and kept.document.buried and isinstance(work, Enqueue | Adopt):
                await self.spare(key, kept)
                kept = None
                continue
            task = await self._before(work, Task(tenant, id), kept)
            if task.opening is None or lost >= PATIENCE_TURNS or not may_take_key(work):
                decision, holders, is_whole = await self._decided(work, task, now)
                if not decision.events:
                    if is_fresh:
                        return await self._answered(work, decision, key, is_first=is_first)
                else:
                    is_first = is_first or kept is None
                    if await self._put(key, kept, task, decision, holders, clearance) and is_whole:
                        return await self._answered(work, decision, key, is_first=is_first)
            if is_fresh and lost + 1 < tries:
                await self._services.clock.sleep(backoff.next_seconds())
            kept, is_guess, now = None, False, await self._time_for(work)
        raise TurnsLost(self._store.name, key, f"{tries} turns in a row were lost")

    async def _time_for(self, work: Work) -> float:
        """Now, by a clock that was compared not long ago: a turn may have been slept over."""
        if not isinstance(work, Query):
            await self._clock.ready_to_write(self._charter.current.settings.clock_skew_seconds)
        return self._clock.now()

    async def _before(self, work: Work, new: Task, kept: Kept[Task] | None) -> Task:
        """What is decided on, with a charter that knows of its seal."""
        task = new if kept is None else kept.document
        is_made = isinstance(work, Enqueue) and all(map(stories.is_id_made, work.jobs))
        if isinstance(work, Enqueue | Adopt):
            task = msgspec.structs.replace(task, made=is_made and (kept is None or task.made))
        moves = self._charter.current.moves
        is_unknown = task.sealed and all(move.id != task.sealed for move in moves)
        if isinstance(work, Adopt):
            if kept is not None:
                # Whether it was adopted, and has left since, only the charter knows.
                await self._charter.refresh()
            return stories.adopting(task, work.move)
        if is_unknown:
            await self._charter.refresh()
        return task

    async def _answered(self, work: Work, decision: Decision, key: str, *, is_first: bool) -> Any:
        """The answer, unless the queue was closed before it could be given."""
        if not isinstance(work, Enqueue):
            return decision.answer
        [id] = [new.id for new in work.jobs]
        try:
            if await self._charter.still_open():
                return decision.answer
            move = self._charter.move
            assert move is not None
            events = decision.events
            is_undone = not events or (is_first and await self._is_taken_back(key, events[-1]))
        except PenstockError as error:
            raise OutcomeUnknown("enqueue", ids=(id,)) from error
        if is_undone and await self._charter.still_open():
            # It was reopened meanwhile, and somebody may have seen the job.
            return await self.take(work.tenant, id, work)
        if not is_undone:
            # Those who move the queue may take it along.
            raise OutcomeUnknown("enqueue", ids=(id,))
        raise move.refusal()

    async def _is_taken_back(self, key: str, event: JobEvent) -> bool:
        """Whether what was put first under this key, by this turn, is as if it never had been."""
        while True:
            kept = await self.tasks.read(key)
            if kept is None or not self._charter.is_late(kept.document):
                return False
            if stories.last_position(kept.document) != event.position:
                return False
            if await self.tasks.put(key, kept, stories.taken_back(kept.document)) is not None:
                self._index.forget([old_entry(kept.document)])
                return True

    async def settled(self, key: str, kept: Kept[Task]) -> Kept[Task]:
        """The same, or with its opening applied if its key's object names it."""
        scope = scope_of(kept.document) if kept.document.opening is not None else None
        if scope is None:
            return kept
        holder = await self.holders.read(kept.document.tenant, scope)
        if holder is None or not is_named(kept.document, holder.document):
            return kept
        return await self._confirm(key, kept) or kept

    async def spare(self, key: str, kept: Kept[Task]) -> None:
        """Makes a buried task one that can be used; it has to be read again (`deleting`)."""
        if await self.tasks.put(key, kept, stories.spared(kept.document)) is not None:
            await self._charter.outlive(key)

    async def void(self, key: str, kept: Kept[Task]) -> None:
        """Gives an opening up that nobody will settle any more."""
        await self.tasks.put(key, kept, stories.voided(kept.document, kept.modified_at))

    async def _decided(self, work: Work, task: Task, now: float) -> tuple[Decision, Found, bool]:
        """The decision, what it was decided on, and whether it is all that was asked for."""
        holdings, holders = list[Holding](), Found()
        for scope in scopes_wanted(work, task):
            holding, holders[scope] = await self.holding(task, scope)
            holdings.append(holding)
        charter = self._charter.current
        # A command that came before the last put is not from a clock set back; nor is it for ever.
        clock = self._clock.now()
        now = max(now, min(stories.stamp_in(task).clock, clock), clock - ASKED_SECONDS_MAX)
        decision = self._decider.on_task(work, task, holdings, charter, now)
        self.ahead.warn(task, decision.stamp)
        if isinstance(decision.answer, MoveProblem):
            raise decision.answer
        if decision.opening is None or len(decision.events) == 1:
            return decision, holders, True
        # What comes before the opening is true at once, and so has a turn of its own.
        first = self._decider.on_task(Expire(task.tenant), task, (), charter, now)
        return first, holders, False

    async def holding(self, task: Task, scope: Scope) -> tuple[Holding, Kept[KeyObject] | None]:
        holder = await self.holders.read(task.tenant, scope)
        if holder is None:
            return Holding(task.tenant, scope, None, None), None
        said = holder.document
        if said.id == task.id:
            return Holding(task.tenant, scope, hold_in(said, task), None), holder
        kept = await self.read(task.tenant, said.id)
        if kept is not None:
            kept = await self.ahead.catch_up(task_key(task_name(task.tenant, said.id)), kept)
        if kept is not None and self._has_dead_lease(kept.document):
            await self.take(task.tenant, said.id, Expire(task.tenant), kept)
        job, kept = await self.look(task.tenant, said.id)
        if kept is None:
            return Holding(task.tenant, scope, hold_in(said, None), job), holder
        if self._charter.is_late(kept.document):
            return Holding(task.tenant, scope, None, None), holder
        hold = hold_in(said, kept.document)
        if hold is not None and hold.until is not None:
            # It goes by the holder's time.
            until = stories.stamp_in(kept.document).clock_at(hold.until)
            hold = msgspec.structs.replace(hold, until=until)
        return Holding(task.tenant, scope, hold, job), holder

    async def _put(
        self,
        key: str,
        kept: Kept[Task] | None,
        task: Task,
        decision: Decision,
        holders: Found,
        clearance: Clearance | None,
    ) -> bool:
        """Whether it stands; False: somebody else was faster, or it must not."""
        if decision.opening is not None:
            return await self._take_key(key, kept, task, decision, holders)
        job, before = decision.job, task.job
        assert job is not None
        modified_at = None if kept is None else kept.modified_at
        after = stories.advanced(
            task, modified_at, decision.events, job, decision.left, decision.stamp
        )
        is_new = before is None or stories.stretch_of(before) != stories.stretch_of(job)
        entry = await self._index.announce(job, after.early_seconds) if is_new else None
        if clearance is not None and not await clearance:
            self._index.forget([entry])
            return False
        put = await self.tasks.put(key, kept, after)
        if put is None:
            self._index.forget([entry])
            return False
        if is_new:
            self._index.forget([old_entry(task)])
        self._remember(key, put)
        self._tell(decision.events)
        return True

    async def _take_key(
        self,
        key: str,
        kept: Kept[Task] | None,
        task: Task,
        decision: Decision,
        holders: Found,
    ) -> bool:
        """The three steps of `holders`."""
        event = decision.opening
        assert event is not None
        modified_at = None if kept is None else kept.modified_at
        after = stories.opening(task, event, modified_at, decision.stamp)
        put = await self.tasks.put(key, kept, after)
        if put is None or put.version is None:
            return False
        scope = scope_of(put.document)
        assert scope is not None
        if not await self.holders.take(holders[scope], task.tenant, scope, put.document):
            await self.void(key, put)
            return False
        try:
            return await self._confirm(key, put) is not None
        except PenstockError as error:
            # It is true, but whoever asked would not be told by whom it gets finished.
            raise OutcomeUnknown(event.event, ids=(event.id,)) from error

    async def _confirm(self, key: str, kept: Kept[Task]) -> Kept[Task] | None:
        """Step 3, by whomever. None: it was given up just before its key was taken."""
        event = kept.document.opening
        assert event is not None
        while True:
            after = stories.opened(kept.document)
            assert after.job is not None
            await self._index.announce(after.job, after.early_seconds)
            put = await self.tasks.put(key, kept, after)
            if put is not None:
                self._index.forget([old_entry(kept.document)])
                self._tell([event])
                if put.version is not None:
                    return put
            found = await self.tasks.read(key)
            if found is None or put is not None:
                return found or put
            if found.document.opening != event:
                is_true = event in found.document.events
                return found if is_true else None
            kept = found

    def _remember(self, key: str, put: Kept[Task]) -> None:
        job = put.document.job
        if put.version is None or job is None or job.state is not State.RUNNING:
            return
        if any(isinstance(one, Retried | Failed) and one.traceback for one in put.document.events):
            # Up to 4 KiB an attempt would stay in memory: what failed before is read again.
            return
        self._held[key] = put
        while len(self._held) > HELD_MAX:
            self._held.popitem(last=False)

    def _has_dead_lease(self, task: Task) -> bool:
        job = task.job
        if job is None or job.lease_until is None:
            return False
        skew_seconds = self._charter.current.settings.clock_skew_seconds
        return job.lease_until + skew_seconds <= stories.time_in(task, self._clock.now())
