"""The ledger: one task owns the journal, and a batch becomes durable with one conditional write.

It decides what `group_commit` has gathered as one batch on the state, appends the events, and only
then answers.

Reads ride in the same batches: they see the state between two commands, never an uncommitted one
that might be rolled back, because they too are answered only when the batch stands. A batch
without events is answered after a look at the tail that began after the batch was formed, one
for all of its requests; otherwise a process that lags would answer from the past.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

from penstock.engines.commit_waits import CommitWaits
from penstock.engines.group_commit import OUTCOME_SECONDS_MAX, FollowedCommits
from penstock.engines.histories import read_back
from penstock.engines.ledger import counting, views
from penstock.engines.ledger.imports.objects import AtHand
from penstock.engines.ledger.journal import Journal, Listener
from penstock.engines.ledger.listing import Listing, jobs_of_rows
from penstock.engines.presence import Presence
from penstock.engines.requests import (
    Glance,
    Query,
    Request,
    Spoiled,
    Work,
    decide_all,
    is_read,
    log_spoiled,
    spoiler,
)
from penstock.errors import Gap, OutcomeUnknown, PenstockError, QueueClosed
from penstock.kernel.batch import Batch
from penstock.kernel.commands import AbortImport
from penstock.kernel.events import (
    EVENTS_PER_COMMIT,
    SYSTEM_TENANT,
    Admitted,
    Event,
    JobEvent,
    commit_of,
    position_of,
)
from penstock.kernel.job import Job
from penstock.kernel.manifest import NeedsChunk
from penstock.kernel.segments import Waiting
from penstock.kernel.settings import Settings
from penstock.kernel.stamps import Stamp
from penstock.kernel.state import QueueState
from penstock.ports.backend import (
    Capabilities,
    Contents,
    Filter,
    Stats,
    VacuumReport,
)
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import let_others_run
from penstock.wire.commit import Unencodable

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

POLL_SECONDS: Final = 0.1
POLL_SECONDS_MAX: Final = 5.0
PREFETCHED_SEGMENTS: Final = 2


class LedgerEngine(CommitWaits, FollowedCommits):
    def __init__(
        self,
        open_journal: Callable[[Listener], Awaitable[Journal]],
        services: Services,
        *,
        group_commit: bool = True,
        outcome_seconds_max: float = OUTCOME_SECONDS_MAX,
    ) -> None:
        super().__init__(
            "ledger", services, group_commit=group_commit, outcome_seconds_max=outcome_seconds_max
        )
        self._open_journal = open_journal
        self._opened: Journal | None = None

    @property
    def _journal(self) -> Journal:
        if self._opened is None:
            raise self._why_not_open()
        return self._opened

    @property
    def _presence(self) -> Presence:
        return self._journal.presence

    @property
    def capabilities(self) -> Capabilities:
        return self._journal.capabilities

    @property
    def settings(self) -> Settings:
        return self._journal.state.settings

    async def _open(self) -> None:
        self._opened = await self._open_journal(self._listeners.tell)

    async def _close(self) -> None:
        await self._journal.close()

    # Reads

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Job | None]:
        def look(state: QueueState, at: float) -> list[Job | Waiting | None]:
            return [find(state, id, at) for id in ids]

        def find(state: QueueState, id: str, at: float) -> Job | Waiting | None:
            return state.look(tenant, id, at) or state.unadmitted(tenant, id)

        found = [await self._built(job) for job in await self._look(look)]
        return await read_back(found, self._journal.read)

    async def jobs(
        self, tenant: str, filter: Filter, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Job]:
        listing = Listing(tenant, filter, after, limit)
        page = await self._look(listing.look)
        for job in listing.take(page):
            yield job
        while listing.has_more:
            # The first page was no older than the call. For the others, what is known here will do.
            for job in listing.take(await self._glance(listing.look)):
                yield job
        for chunk in listing.chunks:
            rows = await self._journal.imports.rows(chunk.place)
            for numbers in listing.rows_of(chunk):
                jobs = await self._glance(partial(jobs_of_rows, chunk, rows, numbers))
                for job in listing.take_rows(jobs):
                    yield job

    async def stats(self, tenant: str) -> Stats:
        def look(state: QueueState, at: float) -> counting.Counted:
            journal = self._journal
            return counting.count(state, tenant, journal.head.commit, at, journal.state_bytes)

        self._require_open()
        for _ in range(counting.SLICES_MAX):
            # What is provisional may be counted, since whoever takes it back says what has changed.
            with self._journal.turn():
                if counting.make_rows(self._journal.state, tenant):
                    break
            await let_others_run()
        counted = await self._look(look)
        if len(counted.rows) <= counting.ROWS_AT_ONCE_MAX:
            return counting.add_up(counted)
        return await asyncio.to_thread(counting.add_up, counted)

    async def contents(self) -> Contents:
        return await self._look(views.contents)

    async def history(self, tenant: str, id: str, life: int | None = None) -> list[JobEvent]:
        job = await self._look(lambda state, at: state.find(tenant, id, at))
        if life is not None and job is not None and job.life != life:
            job = None
        return await self._journal.history(job, tenant, id, life)

    async def events(
        self, tenant: str | None, since: int, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        with self._listeners.listening():
            await self._look(_nothing)
            first = await self._journal.first_commit()
            if 0 < since < position_of(first, 0) - 1:
                raise Gap(since, first)
            commit = max(commit_of(since), first)
            last = inf if follow else self._journal.head.commit
            while True:
                news = self._listeners.commits.next()
                while commit <= min(self._journal.head.commit, last):
                    reached, events = await self._journal.read_on(commit)
                    for event in events:
                        if commit_of(event.position) > last:
                            return
                        if event.position > since and tenant in (None, event.tenant):
                            yield event
                    commit = reached + 1
                if commit > last:
                    return
                if not self._listeners.is_closed:
                    await news
                if self._listeners.is_closed:
                    raise QueueClosed

    async def last_position(self) -> int:
        await self._look(_nothing)
        return position_of(self._journal.head.commit, EVENTS_PER_COMMIT - 1)

    async def vacuum(self) -> VacuumReport:
        self._require_open()
        return await self._journal.vacuum(self._inbox.add)

    async def keep(self, id: str, data: bytes) -> str:
        return await self._journal.keep(id, data)

    async def fetch(self, key: str) -> bytes:
        return await self._journal.fetch(key)

    async def keep_import(self, run: str, data: bytes) -> str:
        return await self._journal.imports.keep(run, data)

    async def abort_import(self, run: str) -> int:
        enqueued = await self.execute(AbortImport(SYSTEM_TENANT, run))
        await self._journal.imports.delete(run)
        return enqueued

    # Waits

    async def _due_seconds(
        self, tenant: str, queues: Sequence[str] | None, types: Sequence[str] | None
    ) -> float:
        with self._journal.turn():
            state, now = self._journal.state, self._journal.stamp().at
            return views.due_seconds(state, tenant, queues, types, now)

    # The loop

    async def _serve(self, requests: list[Request]) -> None:
        """Decides the requests until the result stands, then answers them."""
        is_confirmed = all(isinstance(request.work, Glance) for request in requests)
        is_again = False
        journal = self._journal
        chunks = AtHand(journal.imports)
        while True:
            if not is_read(requests):
                # Each time: what was lost may have been slept over.
                try:
                    await journal.ready_to_write()
                except PenstockError as error:
                    requests = self._fail_commands(requests, error)
            try:
                with journal.turn():
                    stamp = journal.stamp()
                    works = [one.work_again() if is_again else one.work for one in requests]
                    events, answers, ends = self._decide(works, stamp, chunks)
                    if events:
                        try:
                            if await self._append(events, stamp, ends):
                                break
                        except OutcomeUnknown:
                            raise
                        except PenstockError as error:
                            # It did not happen. Whoever only looks need not suffer for that.
                            requests = self._fail_commands(requests, error)
                            continue
                        is_confirmed = is_again = True
                        continue
            except NeedsChunk as needs:
                await chunks.bring(needs.place)
                continue
            except Spoiled as found:
                # It has done nothing, and nothing is decided yet: the others are, without it.
                log_spoiled(found)
                requests = [*requests]
                requests.pop(found.place).answer(found.error)
                continue
            if is_confirmed or not await journal.catch_up():
                break
            is_confirmed = True
        for request, answer in zip(requests, answers, strict=True):
            request.answer(answer)
        self._prefetch(events)

    def _fail_commands(self, requests: list[Request], error: PenstockError) -> list[Request]:
        """Tells those who wanted something done; answers the reads that are left."""
        reads = [request for request in requests if isinstance(request.work, Query)]
        self._fail([request for request in requests if request not in reads], error)
        return reads

    def _prefetch(self, events: Sequence[Event]) -> None:
        """Where jobs of an import were admitted, more of it will be wanted soon."""
        imports = self._journal.state.imports
        if imports.sources:
            admitted = {(e.tenant, e.run) for e in events if isinstance(e, Admitted)}
            with self._journal.turn():
                for source in filter(None, map(imports.sources.get, admitted)):
                    self._journal.imports.prefetch(source.segments[:PREFETCHED_SEGMENTS])

    async def _append(self, events: Sequence[Event], stamp: Stamp, ends: Sequence[int]) -> bool:
        try:
            return await self._journal.append(events, stamp)
        except Unencodable as error:
            raise spoiler(error, ends) from error

    def _decide(
        self, works: Sequence[Work], stamp: Stamp, chunks: AtHand
    ) -> tuple[list[Event], list[Any], list[int]]:
        journal = self._journal
        state, head = journal.state, journal.head
        state.begin()
        try:
            batch = Batch(state, stamp.at, head.commit + 1, self._services.luck, chunks)
            answers, ends = decide_all(batch, state, works, stamp.at)
            is_set_back = not batch.events and stamp.was_set_back_since(head.stamp)
            if is_set_back and not all(isinstance(work, Query) for work in works):
                batch.note_time()
            if batch.events:
                for command in journal.riders():
                    batch.run(command)
            else:
                state.settle()
        except BaseException:
            state.rollback()
            raise
        return batch.events, answers, ends

    async def _follow(self) -> None:
        """Looks at the tail while somebody waits for news; often at first, then less so."""
        backoff = self._services.backoff(POLL_SECONDS, POLL_SECONDS_MAX)
        complaints = Complaints(logger, self._services.clock)
        while True:
            await self._listeners.some()
            seen = self._journal.head.commit
            await self._journal.changed(
                POLL_SECONDS_MAX if self.capabilities.push else backoff.next_seconds()
            )
            try:
                await self._look(_nothing)
            except QueueClosed:
                return
            except PenstockError as error:
                complaints.trouble("following the log", error)
                continue
            complaints.fine()
            if self._journal.head.commit != seen:
                backoff.reset()

    async def _look(self, look: Callable[[QueueState, float], Answer]) -> Answer:
        self._require_open()
        answer: Answer = await self._inbox.add(Query(look))
        return answer

    async def _glance(self, look: Callable[[QueueState, float], Answer]) -> Answer:
        """What is known here, without asking the store whether there is more."""
        self._require_open()
        answer: Answer = await self._inbox.add(Glance(look))
        return answer

    async def _built(self, job: Job | Waiting | None) -> Job | None:
        """An unadmitted job is made from its row."""
        if not isinstance(job, Waiting):
            return job
        rows = await self._journal.imports.rows(job.place)
        return job.job(rows[job.row - job.place.first], self.settings)


def _nothing(state: QueueState, at: float) -> None:
    """A read that only wants the state to be fresh."""
