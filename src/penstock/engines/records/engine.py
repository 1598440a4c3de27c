"""The records engine: one record per job, and every batch one turn of a shared store.

What `group_commit` has gathered becomes one turn: the records, keys and candidates that it may
touch are read, the kernel decides on them, and the changed records are written with their events,
all or nothing. Where somebody else changed one of them meanwhile, the whole batch is read and
decided again. Nothing that is relied on is kept in this process but the charter it last saw.

Reads of jobs have turns of their own, which write nothing: they answer where nothing can be
written, and whatever becomes of the commands that came with them. Counts and lists are read
straight from the store, after such a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from penstock.engines.calibration import CommitClock, warn_of_time
from penstock.engines.group_commit import OUTCOME_SECONDS_MAX, FollowedCommits
from penstock.engines.histories import read_back
from penstock.engines.presence import Presence
from penstock.engines.records import commit_reader, views
from penstock.engines.records.colliders import Colliders
from penstock.engines.records.commit_reader import RETRY_SECONDS, RETRY_SECONDS_MAX
from penstock.engines.records.needs import Look, parted, runs
from penstock.engines.records.shelves import Known
from penstock.engines.records.turns import ID_CHARACTERS, Turn, charter_in
from penstock.engines.records.vacuum import Vacuum
from penstock.engines.records.waiting import LOOK_SECONDS_MAX, WaitingRoom
from penstock.engines.requests import Request, Work, weighed
from penstock.engines.side import SideObjects
from penstock.errors import PenstockError, StoreFull, StoreUnavailable, Unsupported
from penstock.kernel.commands import Command, Enqueue, ImportCommand, Outcome, Receipt
from penstock.kernel.events import EVENTS_PER_COMMIT, Event, JobEvent, position_of
from penstock.kernel.job import Job
from penstock.kernel.settings import Settings
from penstock.kernel.stamps import THE_BEGINNING, Stamp
from penstock.kernel.state import QueueState
from penstock.ports.backend import Capabilities, Contents, Filter, Stats, VacuumReport
from penstock.ports.record_abilities import TransactionalStore
from penstock.ports.records import Collided, Head, Need, RecordStore
from penstock.ports.wakes import Heard
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.wire.commit import decode_commit
from penstock.wire.record import Charter

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

TURNS_LOST_MAX: Final = 200
"""Nobody is that unlucky in half a minute: something is not what it should be."""
TURNS_WITHIN_MAX: Final = 10
"""The same in a transaction of the caller's, where waiting would only make others wait."""
COMMITS_TOLD_MAX: Final = 64
"""Whoever waits for an end and is further behind looks for it instead."""


class RecordsEngine(FollowedCommits):
    def __init__(
        self,
        store: RecordStore,
        services: Services,
        *,
        group_commit: bool = True,
        outcome_seconds_max: float = OUTCOME_SECONDS_MAX,
    ) -> None:
        super().__init__(
            "records", services, group_commit=group_commit, outcome_seconds_max=outcome_seconds_max
        )
        self._store = store
        self._clock = CommitClock(store.side, services)
        self._colliders = Colliders(self._attend, self._tasks, services.clock)
        self._registry = Presence(store.side, services)
        self._side = SideObjects(
            store.side, services, self._clock, lambda: self._charter.swept_before
        )
        self._writer = services.new_secret()[:ID_CHARACTERS]
        self._stamp = THE_BEGINNING
        """Of the newest turn that is known here."""
        self._known = Known()
        self._charter = Charter()
        self._charter_version = 0
        self._seen = 0
        """The newest commit that the listeners were told of."""
        self._catching_up = asyncio.Lock()
        """So that nobody is told of the same thing twice."""
        self._noticed = 0
        """The newest commit that was there at the last look."""
        self._waiting = WaitingRoom(
            store,
            self._listeners,
            services,
            lambda: (self._charter, self._clock.stamp(self._stamp).at),
        )

    @property
    def _presence(self) -> Presence:
        return self._registry

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    @property
    def settings(self) -> Settings:
        return self._charter.settings

    async def _open(self) -> None:
        await self._store.open()
        try:
            head = await self._store.head()
            self._note_charter(charter_in(head), head.charter_version, head.readable)
            self._note_readable(head.readable)
            self._seen = head.readable
            self._stamp = Stamp(head.at, head.clock)
            warn_of_time(self.capabilities.backend, self._clock.stamp(self._stamp))
        except BaseException:
            await self._store.close()
            raise

    async def _close(self) -> None:
        self._waiting.wake_all()
        await self._store.close()

    async def execute(self, command: Command[Answer]) -> Answer:
        if isinstance(command, ImportCommand):
            raise self._no_imports()
        return await super().execute(command)

    async def execute_within(self, connection: Any, command: Enqueue) -> list[Outcome[Receipt]]:
        self._require_open()
        if not isinstance(self._store, TransactionalStore):
            raise Unsupported("enqueuing in your transaction", self.capabilities.backend)
        weighed(command)
        await self._require_time()
        turn = self._new_turn([command])

        def ask(head: Head) -> Need:
            # What has to leave can do so with others: that transaction may last.
            return replace(turn.ask(head), fronts=(), riding=())

        for _ in range(TURNS_WITHIN_MAX):
            turn.begin(self._clock.now())
            if await self._store.turn_within(connection, ask, turn.decide):
                [answer] = turn.answers
                if isinstance(answer, PenstockError):
                    raise answer
                outcomes: list[Outcome[Receipt]] = answer
                return outcomes
        raise StoreUnavailable(
            self.capabilities.backend, "", "another was first; take your transaction again"
        )

    # Reads

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Job | None]:
        def look(state: QueueState, at: float) -> list[Job | None]:
            return [state.look(tenant, id, at) for id in ids]

        jobs = await self._look(look, [(tenant, id) for id in ids])
        return await read_back(jobs, self._read)

    async def jobs(
        self, tenant: str, filter: Filter, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Job]:
        at = await self._now()
        found = views.jobs(self._store, self._charter, tenant, filter, at, after, limit)
        async for job in found:
            yield job

    async def stats(self, tenant: str) -> Stats:
        at = await self._now()
        paused = self._charter.paused.get(tenant, [])
        return await views.take_stats(self._store, tenant, paused, at)

    async def contents(self) -> Contents:
        at = await self._now()
        return await views.contents(self._store, self._charter, at)

    async def history(self, tenant: str, id: str, life: int | None = None) -> list[JobEvent]:
        def look(state: QueueState, at: float) -> Job | None:
            # Also where it has lapsed: its history has not.
            return state.tenancy(tenant).jobs.get(id)

        job = await self._look(look, [(tenant, id)])
        if life is not None and job is not None and job.life != life:
            job = None
        return await views.history(self._store, job, tenant, id, life)

    async def events(
        self, tenant: str | None, since: int, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        with self._listeners.listening():
            await self._now()
            place = (self._store, self._services, self._listeners)
            async for event in commit_reader.read_events(*place, tenant, since, follow=follow):
                yield event

    async def last_position(self) -> int:
        await self._now()
        newest = await commit_reader.settled_commit(self._store, self._services)
        return position_of(newest, EVENTS_PER_COMMIT - 1) if newest else 0

    async def vacuum(self) -> VacuumReport:
        self._require_open()
        return await Vacuum(self._store, self._inbox.add, self._clock).run()

    async def keep(self, id: str, data: bytes) -> str:
        await self._require_time()
        return await self._side.keep(id, data)

    async def fetch(self, key: str) -> bytes:
        return await self._side.fetch(key)

    async def keep_import(self, run: str, data: bytes) -> str:
        raise self._no_imports()

    async def abort_import(self, run: str) -> int:
        raise self._no_imports()

    # Waits

    async def wait_ready(
        self,
        tenant: str,
        queues: Sequence[str] | None,
        types: Sequence[str] | None,
        timeout_seconds: float,
    ) -> None:
        self._require_open()
        await self._waiting.wait(tenant, queues, types, timeout_seconds)

    async def _follow(self) -> None:
        """Looks for others' commits while somebody waits for news."""
        complaints, is_settled = Complaints(logger, self._services.clock), True
        while True:
            if not self._waiting.may_be_told:
                await self._listeners.some()
            try:
                seconds = LOOK_SECONDS_MAX if is_settled else RETRY_SECONDS_MAX
                heard = await self._store.changed(seconds)
                await self._waiting.tell(heard.wakes)
                is_awaited = heard.is_news and self._listeners.await_commits
                if is_awaited or heard.is_for_all or heard == Heard():
                    is_settled = await self._catch_up()
                if heard.is_for_all:
                    self._waiting.wake_all()
            except PenstockError as error:
                complaints.trouble("following the queue", error)
                await self._services.clock.sleep(RETRY_SECONDS_MAX)
                continue
            complaints.fine()

    async def _catch_up(self) -> bool:
        """Whether that was all: nothing newer is there that can't be read yet."""
        async with self._catching_up:
            return await self._tell_of_news()

    async def _tell_of_news(self) -> bool:
        noticed, head = self._noticed, await self._store.head()
        if head.commit < noticed:
            self._begin_again(head)
        self._note_charter(charter_in(head), head.charter_version, head.readable)
        if head.commit > self._noticed:
            # What it brought can be claimed, even if its events can't be read yet.
            self._noticed = head.commit
            self._listeners.commits.set()
            if head.readable < head.commit and self._listeners.awaited:
                # Whoever waits for an end needs no order, so an older transaction is no matter.
                turn, now = self._new_turn([]), self._clock.now()
                ended = await views.ended(self._store, turn, self._listeners.awaited, now)
                self._listeners.tell_of_ends(ended)
        if head.readable <= self._seen:
            return head.readable >= head.commit
        missed: list[Event] | None = []
        if self._listeners.await_events:
            page = await self._store.commits(self._seen, COMMITS_TOLD_MAX)
            missed = None
            if len(page) < COMMITS_TOLD_MAX:
                commits = [decode_commit(f"commit {number}", data) for number, data in page]
                others = [commit for commit in commits if commit.header.writer != self._writer]
                # Of its own it has told when they were made; by now they may be history.
                missed = [event for commit in others for event in commit.events]
        self._seen = head.readable
        self._note_readable(head.readable)
        self._listeners.tell(missed)
        return head.readable >= head.commit

    def _begin_again(self, head: Head) -> None:
        """The store was restored from an older state: what was known of later commits is void."""
        logger.warning("%s has lost all after commit %d", self.capabilities.backend, head.commit)
        self._noticed, self._seen, self._charter_version = head.commit, head.readable, 0
        self._listeners.reached = -1
        self._note_readable(head.readable)
        self._listeners.tell(None)
        self._waiting.wake_all()

    def _note_charter(self, charter: Charter, version: int, readable: int) -> None:
        # What was read in another thread may be older than what a turn has just written. Where all
        # is readable up to there, the newer one was lost.
        if version >= self._charter_version or readable >= self._charter_version:
            self._charter, self._charter_version = charter, version

    def _note_readable(self, commit: int) -> None:
        """Who begins to watch for an end now does not mean one that could be read before."""
        reached = position_of(commit, EVENTS_PER_COMMIT - 1)
        self._listeners.reached = max(self._listeners.reached, reached)

    # Turns

    async def _serve(self, requests: list[Request]) -> None:
        for run in runs(requests):
            try:
                await self._take_turn(run)
            except StoreFull as error:
                # The others need no room, and did not ask for any.
                adding, others = parted(run)
                self._fail(adding or run, error)
                await self._serve(others if adding else [])
            except PenstockError as error:
                # What came before stands and was answered; what comes after has its own luck.
                self._fail(run, error)

    async def _take_turn(self, requests: list[Request]) -> None:
        turn = self._new_turn([request.work for request in requests])
        if not turn.is_read:
            await self._require_time()
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        for _ in range(TURNS_LOST_MAX):
            turn.begin(self._clock.now())
            try:
                if await self._store.turn(turn.ask, turn.decide, is_read=turn.is_read):
                    break
            except Collided as error:
                await self._colliders.sort_out(requests, error)
                return
            except PenstockError:
                raise
            except Exception:
                if turn.is_written or len(requests) == 1:
                    raise
                # One of them broke it before anything was written: each for itself, then.
                logger.exception("a batch failed in a way that it should not")
                for request in requests:
                    await self._attend([request])
                return
            await self._services.clock.sleep(backoff.next_seconds())
            turn.begin_again([request.work_again() for request in requests])
        else:
            raise StoreUnavailable(
                self.capabilities.backend, "", f"{TURNS_LOST_MAX} turns in a row were lost"
            )
        self._note_charter(turn.charter, turn.charter_version, turn.head.readable)
        self._stamp = turn.stamp
        if turn.is_read and self._listeners.await_cancellations:
            # Whoever looks knows, and whoever knows tells.
            await self._catch_up()
        self._note_readable(turn.head.readable)
        self._waiting.note_claims(requests, turn.answers)
        for request, answer in zip(requests, turn.answers, strict=True):
            request.answer(answer)
        if turn.events:
            self._listeners.tell(turn.events)

    def _new_turn(self, works: list[Work]) -> Turn:
        id, seconds = self._services.new_secret(), self.capabilities.log_retention_seconds
        return Turn(
            works, self._services.luck, self._writer, id[:ID_CHARACTERS], seconds, self._known
        )

    async def _require_time(self) -> None:
        if self._store.has_own_clock:
            await self._clock.ready_to_write(self.settings.clock_skew_seconds)

    async def _look(
        self, look: Callable[[QueueState, float], Answer], ids: list[tuple[str, str]]
    ) -> Answer:
        self._require_open()
        answer: Answer = await self._inbox.add(Look(look, ids))
        return answer

    async def _now(self) -> float:
        """The time as of which to look, by a charter that is that of now."""
        return await self._look(lambda state, at: at, [])

    def _no_imports(self) -> Unsupported:
        return Unsupported("bulk imports", self.capabilities.backend)

    async def _read(self, commit: int, positions: Collection[int]) -> Sequence[Event]:
        return await views.events_at(self._store, commit, positions)
