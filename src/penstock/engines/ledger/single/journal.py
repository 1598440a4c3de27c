"""The journal of layout `single`: a commit replaces the whole queue, by compare-and-set.

The same three outcomes as in layout `log`, with the version in the place of the slot:

done      It stands.
refused   Somebody replaced the version that we built on, perhaps ourselves (an answer was lost),
          and others may have built on that. So the object is read: if our commit id is among its
          newest, it stands; if ours may have left that window, nobody can tell; else it is lost
          and the batch is decided again.
unknown   The same bytes against the same version, until that version is gone.

Finished jobs whose time is up are written to the archive first, and left out of the next version;
so are events of no job that the window is too short for. What is archived was committed before, so
it is true whatever becomes of the commit that leaves it out; and every event can be found: in the
window, with its job, or in the archive. Tracebacks are put beside before the commit that has them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.consumers import Execute, drop_silent
from penstock.engines.histories import history_of
from penstock.engines.ledger.imports.sweep import sweep_imports
from penstock.engines.ledger.journal import Head, Listener
from penstock.engines.ledger.names import QUEUE
from penstock.engines.ledger.single.archive import Archive
from penstock.engines.ledger.single.document import (
    ASIDE_EVENTS_MAX,
    COMMIT_IDS_MAX,
    WINDOW_EVENTS_MAX,
    Document,
    JobRecord,
    decode_document,
    encode_document,
    record_of,
)
from penstock.engines.ledger.single.tracebacks import Tracebacks
from penstock.engines.ledger.stored import StoredJournal
from penstock.engines.ledger.sweep import sweep_data
from penstock.engines.room import vacuum_with_reserve
from penstock.errors import (
    Corrupt,
    ObjectNotFound,
    OutcomeUnknown,
    StoreError,
)
from penstock.kernel.commands import AnyCommand, Expire
from penstock.kernel.events import SYSTEM_TENANT, Event, JobEvent, JobFact, commit_of
from penstock.kernel.job import Job
from penstock.kernel.stamps import Stamp, stamp_of
from penstock.ports.backend import VacuumReport
from penstock.ports.store import Create, ObjectStore, PutMode, Replace, Written
from penstock.runtime.services import Services
from penstock.wire.commit import UNWRITABLE, raise_unencodable
from penstock.wire.level import level_of
from penstock.wire.snapshot import all_jobs, canonical, overview, restore

logger = logging.getLogger(__name__)

Identity: TypeAlias = tuple[str, str, int]
"""Tenant, id and life."""
Stories: TypeAlias = dict[Identity, list[JobEvent]]


class Refused(Struct, frozen=True):
    """Another version is stored than the one that was to be replaced."""

    document: Document
    version: str


class SingleJournal(StoredJournal):
    def __init__(self, store: ObjectStore, services: Services, listener: Listener) -> None:
        super().__init__(store, services, listener, watched=QUEUE)
        self._archive = Archive(store)
        self._tracebacks = Tracebacks(store, self._writer)
        self._version: str | None = None
        self.state_bytes = 0
        self._commit_ids: list[str] = []
        self._window: deque[Event] = deque(maxlen=WINDOW_EVENTS_MAX)
        self._aside: list[Event] = []
        self._records: dict[Identity, JobRecord] = {}
        """Of each job in the state."""

    async def open(self) -> None:
        await self.catch_up()
        self._warn_of_time()
        self._courtesy.opened()
        if self._store.name.startswith("gs://"):
            logger.warning(
                "%s: GCS takes about one write a second of one object; layout log has no limit",
                self._store.name,
            )

    async def catch_up(self) -> bool:
        return await again_if_bad(self._look)

    async def append(self, events: Sequence[Event], stamp: Stamp) -> bool:
        try:
            commit, commit_id = self.head.commit + 1, self._services.new_secret()
            kept = await self._tracebacks.put_aside(events, commit, commit_id, stamp.at)
            news = _by_job(kept)
            left = self.state.seal(stamp.at, ended_before=commit)
            leaving = [(job, self._story(job, news)) for job in left]
            if leaving:
                await self._archive.write(leaving, commit_id, stamp.at)
            aside = self._aside
            if len(aside) >= ASIDE_EVENTS_MAX:
                await self._archive.write_aside(aside, commit, commit_id, self._writer, stamp.at)
                aside = []
            try:
                document = self._document(kept, news, aside, commit, commit_id, stamp)
                data = encode_document(document)
            except UNWRITABLE:
                raise_unencodable(events)
                raise
            await self._courtesy.before_put()
            outcome = await self._replace(data)
        except BaseException:
            self.state.rollback()
            raise
        if isinstance(outcome, Refused):
            self.state.rollback()
            return await self._is_in(outcome, commit, commit_id)
        self.state.settle()
        self._version = outcome.version
        self.state_bytes = len(data)
        self._adopt(document)
        self._listener(events)
        await self._courtesy.won()
        return True

    async def _look(self) -> bool:
        """Takes in what is stored. True: it is new."""
        try:
            stored = await self._store.get(QUEUE)
        except ObjectNotFound:
            if self._version is not None:
                raise Corrupt(QUEUE, "it was there before and is gone") from None
            return False
        if stored.version == self._version:
            return False
        self._take_in(decode_document(stored.data), stored.version)
        self.state_bytes = len(stored.data)
        return True

    def riders(self) -> list[AnyCommand]:
        return []

    async def vacuum(self, execute: Execute) -> VacuumReport:
        return await vacuum_with_reserve(
            self._store, self.clock.now(), lambda: self._vacuum(execute)
        )

    async def _vacuum(self, execute: Execute) -> VacuumReport:
        # Asked for its answer's sake: the settings are those of now.
        await execute(Expire(SYSTEM_TENANT))
        await drop_silent(self.state.consumers, self.clock.now(), execute)
        horizon = self.clock.now() - self.state.settings.retention_seconds()
        imported = await sweep_imports(self._store, lambda: self.state, execute, horizon)
        swept = await sweep_data(self._store, lambda: self.state, execute, horizon)
        written_before = horizon - self.state.settings.clock_skew_seconds
        tracebacks = await self._tracebacks.vacuum(written_before)
        return VacuumReport(
            await self.first_commit(), tracebacks, data_objects=swept, import_objects=imported
        )

    async def first_commit(self) -> int:
        return 1

    async def read(self, commit: int, positions: Collection[int]) -> Sequence[Event]:
        _, events = await self._read_on(commit)
        return [event for event in events if event.position in positions]

    async def read_on(self, commit: int) -> tuple[int, Sequence[Event]]:
        last, events = await self._read_on(commit)
        return last, await self._tracebacks.fill_in(events)

    async def _read_on(self, commit: int) -> tuple[int, list[Event]]:
        last = self.head.commit
        oldest = commit_of(self._window[0].position) if self._window else 0
        # The oldest commit in the window may have lost its first events.
        if commit > oldest or last == 0 or len(self._window) < WINDOW_EVENTS_MAX:
            events: Iterable[Event] = list(self._window)
        else:
            events = await self._all_events()
        return last, [event for event in events if commit <= commit_of(event.position) <= last]

    async def history(
        self, job: Job | None, tenant: str, id: str, life: int | None
    ) -> list[JobEvent]:
        # The job may have left since it was looked up.
        record = None if job is None else self._records.get((tenant, id, job.life))
        if record is not None:
            return await self._tracebacks.fill_in(history_of(record.events, tenant, id))
        archived = [record for record in await self._archive.read() if record.id == id]
        events = [event for record in archived for event in record.events]
        return await self._tracebacks.fill_in(history_of(events, tenant, id, life))

    def _record(self, job: Job, news: Stories) -> JobRecord:
        known = self._records.get(_identity(job))
        # Jobs are values: to the one that was written down nothing has happened since.
        if known is not None and known.job is job:
            return known
        return record_of(job, self._story(job, news))

    def _story(self, job: Job, news: Stories) -> list[JobEvent]:
        known = self._records.get(_identity(job))
        return [*(known.events if known else ()), *news.get(_identity(job), ())]

    def _document(
        self,
        events: Sequence[Event],
        news: Stories,
        aside: Sequence[Event],
        commit: int,
        commit_id: str,
        stamp: Stamp,
    ) -> Document:
        newest = [*self._window, *events]
        older, window = newest[:-WINDOW_EVENTS_MAX], newest[-WINDOW_EVENTS_MAX:]
        return Document(
            format=level_of(self.state.moves),
            commit=commit,
            commit_id=commit_id,
            writer=self._writer,
            at=stamp.at,
            clock=stamp.lagging_clock,
            overview=overview(self.state),
            commit_ids=[*self._commit_ids, commit_id][-COMMIT_IDS_MAX:],
            jobs=[self._record(job, news) for job in canonical(all_jobs(self.state))],
            events=window,
            aside=[*aside, *(event for event in older if not isinstance(event, JobFact))],
        )

    async def _replace(self, data: bytes) -> Written | Refused:
        """Puts the frozen attempt until the version that it replaces is gone."""
        mode: PutMode = Create() if self._version is None else Replace(self._version)
        return await self._put_frozen(QUEUE, data, mode) or await self._read_until_clear()

    async def _read_until_clear(self) -> Refused:
        """What is stored in place of a refused commit: until it was read the outcome is unknown."""
        backoff = self._backoff()
        while True:
            try:
                stored = await self._store.get(QUEUE)
                return Refused(decode_document(stored.data), stored.version)
            except (Corrupt, StoreError):
                await self._services.clock.sleep(backoff.next_seconds())

    async def _is_in(self, refused: Refused, commit: int, commit_id: str) -> bool:
        """Takes in what is stored, and tells whether a refused commit is a part of it after all."""
        self._take_in(refused.document, refused.version)
        is_ours = refused.document.contains(commit, commit_id)
        if is_ours is None:
            raise OutcomeUnknown("commit")
        if not is_ours:
            await self._courtesy.lost()
        return is_ours

    def _take_in(self, document: Document, version: str) -> None:
        seen = self.head.commit
        self.state = restore(
            document.overview, [record.job for record in document.jobs], document.at
        )
        self._version = version
        self._adopt(document)
        if document.writer != self._writer:
            self._courtesy.saw_another()
        reaches_back = len(document.events) < WINDOW_EVENTS_MAX or (
            commit_of(document.events[0].position) <= seen
        )
        news = [event for event in document.events if commit_of(event.position) > seen]
        self._listener(news if reaches_back else None)

    def _adopt(self, document: Document) -> None:
        stamp = stamp_of(document.at, document.clock)
        self.head = Head(document.commit, stamp, document.commit_id)
        self._commit_ids = document.commit_ids
        self._records = {_identity(record.job): record for record in document.jobs}
        self._window = deque(document.events, maxlen=WINDOW_EVENTS_MAX)
        self._aside = document.aside

    async def _all_events(self) -> list[Event]:
        """Window, live jobs and archive: each event once, in order."""
        told = (record.events for record in self._records.values())
        kept = chain(self._window, self._aside, chain.from_iterable(told))
        here = {event.position: event for event in kept}
        # Afterwards: what leaves meanwhile was among those, what has left is in there.
        archived = [event for record in await self._archive.read() for event in record.events]
        left = {event.position: event for event in (*archived, *await self._archive.read_aside())}
        events = left | here
        return [events[position] for position in sorted(events)]


def _identity(of: Job | JobEvent) -> Identity:
    return of.tenant, of.id, of.life


def _by_job(events: Sequence[Event]) -> Stories:
    stories: Stories = {}
    for event in events:
        if isinstance(event, JobFact):
            stories.setdefault(_identity(event), []).append(event)
    return stories
