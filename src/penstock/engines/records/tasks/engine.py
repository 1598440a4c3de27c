"""Layout `tasks`: one object per job, and no other in its way.

The same kernel, the other way around. Where a store of records has one turn for a whole batch, an
object store has no transaction over two objects: so every item of every command is a turn of its
own (`turns`), on one task, and its key if it takes one. They run at the same time; only items of
one id or key wait for each other. So batches are not atomic, and different jobs never meet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Final

from penstock.engines.calibration import CommitClock
from penstock.engines.commit_waits import CommitWaits
from penstock.engines.group_commit import OUTCOME_SECONDS_MAX
from penstock.engines.histories import history_of
from penstock.engines.presence import Presence
from penstock.engines.records import views
from penstock.engines.records.capabilities import task_capabilities
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.claims import Claims
from penstock.engines.records.tasks.counting import survey
from penstock.engines.records.tasks.decisions import Decider
from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.expiry import Expiry
from penstock.engines.records.tasks.following import Follower
from penstock.engines.records.tasks.index import Index
from penstock.engines.records.tasks.known import Known
from penstock.engines.records.tasks.lanes import InOrder, Item, items_of, lanes
from penstock.engines.records.tasks.listing import listed
from penstock.engines.records.tasks.looking import all_tasks, contents, whole
from penstock.engines.records.tasks.moving import Mover
from penstock.engines.records.tasks.names import INDEX_MODES, SHARDS, TASKS
from penstock.engines.records.tasks.positions import Positions
from penstock.engines.records.tasks.scanning import Scanner
from penstock.engines.records.tasks.sweeping import Sweeper
from penstock.engines.records.tasks.turns import Turns
from penstock.engines.records.tasks.vacuum import Vacuum
from penstock.engines.records.tasks.versions import history_in_versions
from penstock.engines.requests import Query, Request
from penstock.engines.room import vacuum_with_reserve
from penstock.engines.side import SideObjects
from penstock.engines.watching import Watcher
from penstock.errors import PenstockError, QueueClosed, Unsupported
from penstock.kernel.commands import (
    AnyCommand,
    Claim,
    Configure,
    DropConsumer,
    Expire,
    FindConflicts,
    ImportCommand,
    MoveCommand,
    MoveConsumer,
    NoteCheckpoint,
    Pause,
    Resume,
    Sweep,
)
from penstock.kernel.events import Event, JobEvent
from penstock.kernel.job import Job
from penstock.kernel.settings import Settings
from penstock.ports.backend import Capabilities, Contents, Filter, IndexReport, Stats, VacuumReport
from penstock.ports.store import ObjectStore, Versioned
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.wire.task import Task

logger = logging.getLogger(__name__)

COMMANDS_AT_ONCE: Final = 256
POLL_SECONDS: Final = 0.1
POLL_SECONDS_MAX: Final = 5.0
ENDS_POLL_SECONDS_MAX: Final = 0.5
"""Whoever awaits the end of a job that another process runs has its task read this often."""
NOWS_KNOWN_MAX: Final = 1_000


class TasksEngine(CommitWaits):
    def __init__(
        self,
        store: ObjectStore,
        services: Services,
        *,
        versions: bool = False,
        mode: str = INDEX_MODES[0],
        shards: Sequence[str] = SHARDS,
        outcome_seconds_max: float = OUTCOME_SECONDS_MAX,
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(
            "tasks", services, group_commit=False, outcome_seconds_max=outcome_seconds_max
        )
        self._store = store
        self._versions = versions
        self._on_close = on_close
        self._clock = CommitClock(store, services)
        self._registry = Presence(store, services)
        self._side = SideObjects(store, services, self._clock, lambda: self._charter.swept_before)
        self._watcher = Watcher(store, TASKS, services)
        self._positions = Positions(services.luck)
        self._slots, self._in_order = asyncio.Semaphore(COMMANDS_AT_ONCE), InOrder()
        self._nows: dict[int, None] = {}
        tell, decider = self._listeners.tell, Decider(self._positions, services.luck)
        self._index = Index(store, services)
        self._charter = CharterStore(store, services, self._clock, decider, tell)
        self._turns = Turns(
            store, services, self._clock, decider, self._index, self._charter, tell
        )  # fmt: skip
        self._shards = shards
        self._known = Known(store, self._turns, self._clock)
        self._sweeper = Sweeper(store, self._index, self._turns, self._known, self._clock)
        self._expiry = Expiry(self._index, self._turns, self._clock, services, self._charter)
        self._mover = Mover(store, self._turns, self._charter, decider, self._clock)
        scanner = Scanner(store, self._turns, services, mode)
        self._claims = Claims(
            self._index, self._turns, self._charter, self._expiry, scanner,
            self._clock, services, shards,
        )  # fmt: skip

    @property
    def _presence(self) -> Presence:
        return self._registry

    @property
    def capabilities(self) -> Capabilities:
        return task_capabilities(self._store, versions=self._versions, shards=self._shards)

    @property
    def settings(self) -> Settings:
        return self._charter.current.settings

    async def _open(self) -> None:
        try:
            await self._charter.refresh()
        except BaseException:
            await self._on_close()
            raise
        self._turns.ahead.warn_at_opening(self._charter.time_at_opening())

    async def _close(self) -> None:
        await self._watcher.stop()
        await self._index.close()
        await self._on_close()

    # Commands

    async def _commit_loop(self) -> None:
        """Commands on different jobs have nothing to wait for: all are served at once."""
        async with asyncio.TaskGroup() as group:
            while (requests := await self._inbox.take()) is not None:
                try:
                    await self._slots.acquire()
                except asyncio.CancelledError:
                    self._fail(requests, QueueClosed())
                    raise
                ended = partial(self._free_slot, requests)
                group.create_task(self._attend(requests)).add_done_callback(ended)

    def _free_slot(self, requests: list[Request], task: asyncio.Task[None]) -> None:
        self._slots.release()
        if task.cancelled():
            # It may never have begun; if it has, they were told what is known.
            self._fail(requests, QueueClosed())

    async def _serve(self, requests: list[Request]) -> None:
        for request in requests:
            assert not isinstance(request.work, Query), "reads go straight to the store"
            request.answer(await self._perform(request.work))

    async def _perform(self, command: AnyCommand) -> Any:
        match command:
            case Claim():
                await self._ready_to_look()
                return await self._claims.take(command)
            case Expire():
                await self._ready_to_look()
                return await self._expiry.run()
            case Pause() | Resume() | Configure() | Sweep() | MoveConsumer() | DropConsumer():
                await self._require_time()
                return await self._charter.take(command)
            case NoteCheckpoint():
                return None
            case _ if isinstance(command, ImportCommand):
                raise self._no_imports()
            case _ if isinstance(command, MoveCommand | FindConflicts):
                await self._require_time()
                return await self._mover.perform(command)
            case _:
                return await self._each(items_of(command))

    async def _each(self, items: Sequence[Item]) -> list[Any]:
        """One turn each; those that touch the same job or key one after the other."""
        outcomes: list[Any] = [None] * len(items)
        unforeseen: list[Exception] = []
        await self._require_time()
        await self._charter.note_time()
        asked_at = self._clock.now()

        async def walk(lane: Sequence[int]) -> None:
            for place in lane:
                item = items[place]
                try:
                    async with self._in_order.turn((item.tenant, item.id)):
                        await self._ready()
                        [outcome] = await self._turns.take(
                            item.tenant, item.id, item.command, asked_at=asked_at
                        )
                except PenstockError as error:
                    if len(items) == 1:
                        raise
                    outcome = error
                except Exception as error:  # noqa: BLE001  # raised when all others are done
                    unforeseen.append(error)
                    continue
                outcomes[place] = outcome

        await in_parallel(walk, lanes(items))
        if unforeseen:
            raise unforeseen[0]
        return outcomes

    async def _require_time(self) -> None:
        await self._clock.ready_to_write(self.settings.clock_skew_seconds)

    # Reads

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Job | None]:
        self._require_open()
        await self._charter.keep_fresh()

        async def look(id: str) -> Job | None:
            return whole(*await self._turns.look(tenant, id))

        once = dict.fromkeys(ids)
        jobs = dict(zip(once, await in_parallel(look, once), strict=True))
        return [jobs[id] for id in ids]

    async def jobs(
        self, tenant: str, filter: Filter, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Job]:
        place = (self._store, self._turns, self._charter)
        async for job in listed(*place, tenant, filter, await self._now(), after, limit):
            yield job

    async def stats(self, tenant: str) -> Stats:
        at = await self._now()
        counts = survey(await self._known.of(tenant), self._charter, tenant, at)
        return views.stats(counts, self._charter.current.paused.get(tenant, []), at)

    async def contents(self) -> Contents:
        at = await self._now()
        found = all_tasks(self._store, self._turns, only_looks=True)
        tasks = [kept.document async for _, kept in found]
        held = [one async for one in self._turns.holders.all()]
        return contents(tasks, held, self._charter.object, self._charter.is_late, at)

    async def history(self, tenant: str, id: str, life: int | None = None) -> list[JobEvent]:
        self._require_open()
        await self._charter.keep_fresh()
        _, kept = await self._turns.look(tenant, id)
        task = Task(tenant, id) if kept is None else kept.document
        if self._versions and stories.is_forgetful(task):
            assert isinstance(self._store, Versioned)
            return await history_in_versions(self._store, tenant, id, life)
        return history_of(task.events, tenant, id, life)

    async def events(
        self, tenant: str | None, since: int, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        with self._listeners.listening():
            await self._now()
            reading = Follower(
                self._store, self._turns, self._charter, self._services, tenant, since,
                is_now=since in self._nows,
            )  # fmt: skip
            while True:
                news = self._listeners.commits.next()
                for event in await reading.round():
                    yield event
                if not follow:
                    return
                if not self._listeners.is_closed:
                    await news
                if self._listeners.is_closed:
                    raise QueueClosed

    async def last_position(self) -> int:
        self._require_open()
        now = self._positions.next(self._clock.now(), 0)
        self._nows[now] = None
        if len(self._nows) > NOWS_KNOWN_MAX:
            del self._nows[next(iter(self._nows))]
        return now

    async def vacuum(self) -> VacuumReport:
        self._require_open()
        return await vacuum_with_reserve(self._store, self._clock.now(), self._vacuum)

    async def _vacuum(self) -> VacuumReport:
        await self._ready_for_care()
        return await Vacuum(
            self._store, self._services, self._turns, self._known, self._charter, self._clock
        ).run()

    async def repair(self) -> IndexReport:
        await self._ready_for_care()
        return await self._sweeper.run()

    async def keep(self, id: str, data: bytes) -> str:
        await self._require_time()
        return await self._side.keep(id, data)

    async def fetch(self, key: str) -> bytes:
        return await self._side.fetch(key)

    async def keep_import(self, run: str, data: bytes) -> str:
        raise self._no_imports()

    async def abort_import(self, run: str) -> int:
        raise self._no_imports()

    async def _ready(self) -> None:
        await self._require_time()
        await self._charter.keep_fresh()
        await self._charter.note_set_back()

    async def _ready_to_look(self) -> None:
        """For those who read the charter again before they take what they have found."""
        await self._require_time()
        await self._charter.keep_fresh_for_looks()
        await self._charter.note_set_back()
        self._charter.require_open()

    async def _ready_for_care(self) -> None:
        """What is tidied is as of now, with everything recorded that is dead by then."""
        self._require_open()
        await self._require_time()
        await self._charter.refresh()
        if self._charter.move is None:
            await self._expiry.run()

    async def _now(self) -> float:
        """The time as of which to look, by a charter that is that of now."""
        self._require_open()
        await self._charter.refresh()
        return round(self._clock.now(), 6)

    def _no_imports(self) -> Unsupported:
        return Unsupported("bulk imports", self.capabilities.backend)

    async def _due_seconds(
        self, tenant: str, queues: Sequence[str] | None, types: Sequence[str] | None
    ) -> float:
        at = self._clock.now()
        await self._charter.keep_fresh_for_looks()
        pending = await self._claims.next_due(self._claims.wanted(tenant, queues, types))
        lease_end = inf if self._expiry.next_end is None else self._expiry.next_end
        expires_at = lease_end + self.settings.clock_skew_seconds
        return min(inf if pending is None else pending, expires_at) - at

    async def _follow(self) -> None:
        """Says now and then that others may have done something, while somebody waits for it."""
        complaints = Complaints(logger, self._services.clock)
        backoff = self._services.backoff(POLL_SECONDS, POLL_SECONDS_MAX)
        while True:
            await self._listeners.some()
            seconds = backoff.next_seconds()
            if self._listeners.awaited:
                seconds = min(seconds, ENDS_POLL_SECONDS_MAX)
            own = self._listeners.commits.next()
            await self._watcher.changed(seconds)
            if own.done():
                backoff.reset()
            try:
                ends = await in_parallel(self._end_of, self._listeners.awaited)
            except PenstockError as error:
                complaints.trouble("following the queue", error)
                continue
            complaints.fine()
            self._listeners.tell([end for end in ends if end is not None])

    async def _end_of(self, job: tuple[str, str]) -> Event | None:
        kept = await self._turns.read(*job)
        return None if kept is None else stories.end_of(kept.document)
