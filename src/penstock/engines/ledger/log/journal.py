"""The journal of layout `log`: how a batch becomes the next commit, and how others' are taken in.

Theory of operation. The state contains commits up to `head`. A batch, decided on that state, is put
at slot `head + 1` with create-only. What can happen, and what is done about it:

done      It stands, if the slot can't have been vacated meanwhile: less than half the least
          retention has passed since the tail was last confirmed, or the floor, read after the put,
          is not above the slot. Else the slot had been vacated before the put, which did not
          happen: reload, and the batch is decided again. But if the put itself took that long, it
          may have been applied, and vacuumed since: unknown for good.
refused   The slot is occupied, perhaps by ourselves (an answer was lost and something retried), so
          it is read. Our commit id: done. Another's: roll back, take it in with all that follow,
          and the batch is decided again.
unknown   It may be applied, now or later. The attempt is frozen: the same bytes go to the same slot
          until the slot is occupied. Nothing leaves or joins the batch. An error that says
          "certainly not applied" ends an attempt only if none before it was unknown.

A 404 at the next slot is the end of the log only if the floor says so, or if the tail was confirmed
so recently that nothing written since can have been vacuumed. If the slot was vacuumed, the
state is too old to be continued and is loaded again from a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from penstock.engines.bad_reads import READS_OF_A_BAD_OBJECT
from penstock.engines.consumers import Execute
from penstock.engines.ledger.courtesy import CONTENTION_SECONDS
from penstock.engines.ledger.journal import Head, Listener
from penstock.engines.ledger.log.checkpoints import Checkpointer
from penstock.engines.ledger.log.floor import read_floor
from penstock.engines.ledger.log.reader import LogReader
from penstock.engines.ledger.log.startup import load
from penstock.engines.ledger.log.tail import Tail
from penstock.engines.ledger.log.vacuum import Vacuum
from penstock.engines.ledger.names import LOG, log_key
from penstock.engines.ledger.stored import StoredJournal
from penstock.engines.room import vacuum_with_reserve
from penstock.errors import (
    Corrupt,
    ObjectNotFound,
    OutcomeUnknown,
    StoreError,
)
from penstock.kernel.commands import AnyCommand, NoteCheckpoint
from penstock.kernel.events import SYSTEM_TENANT, Event, JobEvent
from penstock.kernel.job import Job
from penstock.kernel.settings import RETENTION_SECONDS_MIN
from penstock.kernel.stamps import Stamp
from penstock.ports.backend import VacuumReport
from penstock.ports.store import Create, ObjectStore
from penstock.runtime.services import Services
from penstock.wire.commit import Commit, decode_header, encode_commit
from penstock.wire.level import level_of

logger = logging.getLogger(__name__)

DIRECT_WRITERS_MAX: Final = 8
"""How many processes can share a log well without a broker."""
READ_AHEAD_MAX: Final = 256
READ_AHEAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""How much is read at once, at most, while behind: a process far away must gain on one nearby."""
_DOUBT_SECONDS: Final = RETENTION_SECONDS_MIN / 2
"""What was there so long ago may be vacuumed by now; going by the shortest retention there is,
since somebody may have shortened it meanwhile."""


class LogJournal(StoredJournal):
    def __init__(self, store: ObjectStore, services: Services, listener: Listener) -> None:
        super().__init__(store, services, listener, watched=LOG)
        self.tail = Tail()
        self.checkpointer = Checkpointer(store, services)
        self._reader = LogReader(store, services)
        self._confirmed_at = float("-inf")
        self._writers: dict[str, tuple[int, float]] = {}
        """How many commits of each were read, and by which clock the newest."""

    async def open(self) -> None:
        await self._load_all()
        self._warn_of_time()
        self._courtesy.opened()
        if (writers := self._writers_alive()) > DIRECT_WRITERS_MAX:
            logger.warning(
                "%d processes write %s; they slow each other down, put a broker between",
                writers,
                self._store.name,
            )

    @property
    def state_bytes(self) -> int:
        return self.state.checkpoint_bytes + self.tail.size_bytes

    def _writers_alive(self) -> int:
        """How many are in each other's way: just now, and with more than the one call that some
        processes live for. Nobody says that it leaves, so one that did is counted for that long."""
        since = self.clock.now() - CONTENTION_SECONDS
        seen = self._writers.values()
        return sum(commits > 1 and clock >= since for commits, clock in seen)

    async def close(self) -> None:
        await self.checkpointer.finish()
        await super().close()

    async def catch_up(self) -> bool:
        started_at, started_now = self.clock.elapsed(), self.clock.now()
        before, count = self.head.commit, 1
        while True:
            slot, asked_at = self.head.commit + 1, self.clock.elapsed()
            commits = await self._reader.ahead(slot, count)
            # Before they are believed: a vacated slot may hold what a writer left there who did
            # not know, and nobody may ever see that.
            if not await self._counts(slot):
                await self._load()
                continue
            for commit in commits:
                self._take_in(commit)
            if len(commits) < count:
                break
            if self.head.stamp.clock > started_now:
                # They commit faster than we read: without a word we might never get there.
                self._courtesy.measured(self.clock.elapsed() - asked_at)
                await self._courtesy.knock()
            if sum(commit.size_bytes for commit in commits) < READ_AHEAD_BYTES_MAX:
                count = min(count * 2, READ_AHEAD_MAX)
        self._confirmed_at = started_at
        return self.head.commit != before

    async def append(self, events: Sequence[Event], stamp: Stamp) -> bool:
        try:
            data, chain, commit_id = self._encode(events, stamp)
            await self._courtesy.before_put()
            slot, started_at = self.head.commit + 1, self.clock.elapsed()
            is_ours = await self._occupy(slot, data, commit_id)
            is_vacated = not await self._stands(slot)
            if is_vacated and self.clock.elapsed() - started_at >= _DOUBT_SECONDS:
                # Applied, slept over and vacuumed, or vacuumed and then applied: nobody can tell.
                raise OutcomeUnknown("commit")
            is_ours = is_ours and not is_vacated
        except BaseException:
            self.state.rollback()
            raise
        if not is_ours:
            self.state.rollback()
            await self._courtesy.lost()
            await self.catch_up()
            return False
        self._install(events, Head(slot, stamp, chain), len(data))
        self._confirmed_at = started_at
        await self._courtesy.won()
        return True

    def riders(self) -> list[AnyCommand]:
        stored = self.checkpointer.newly_stored
        if stored is None or stored.commit <= self.state.checkpoint_commit:
            return []
        return [NoteCheckpoint(SYSTEM_TENANT, stored.commit, stored.size_bytes)]

    async def first_commit(self) -> int:
        return await read_floor(self._store)

    async def read(self, commit: int, positions: Collection[int]) -> Sequence[Event]:
        return await self._reader.events_at(commit, positions)

    async def read_on(self, commit: int) -> tuple[int, Sequence[Event]]:
        return commit, await self._reader.events(commit)

    async def history(
        self, job: Job | None, tenant: str, id: str, life: int | None
    ) -> list[JobEvent]:
        return await self._reader.history(job, tenant, id, life, self.head.commit)

    async def vacuum(self, execute: Execute) -> VacuumReport:
        vacuum = Vacuum(self._store, self._reader, self._services, self.clock)
        return await vacuum_with_reserve(
            self._store, self.clock.now(), lambda: vacuum.run(lambda: self.state, execute)
        )

    def _encode(self, events: Sequence[Event], stamp: Stamp) -> tuple[bytes, str, str]:
        commit_id = self._services.new_secret()
        data, chain = encode_commit(
            events,
            commit=self.head.commit + 1,
            commit_id=commit_id,
            writer=self._writer,
            at=stamp.at,
            clock=stamp.lagging_clock,
            previous=self.head.chain,
            level=level_of(self.state.moves),
        )
        return data, chain, commit_id

    async def _occupy(self, slot: int, data: bytes, commit_id: str) -> bool:
        """Puts the frozen attempt until the slot is occupied. True: by us."""
        written = await self._put_frozen(log_key(slot), data, Create())
        return written is not None or await self._is_own(slot, commit_id)

    async def _is_own(self, slot: int, commit_id: str) -> bool:
        """Whose commit is in an occupied slot?"""
        backoff = self._backoff()
        bad_reads = 0
        while True:
            try:
                return await self._id_in(slot) == commit_id
            except Corrupt:
                bad_reads += 1
                if bad_reads == READS_OF_A_BAD_OBJECT:
                    raise OutcomeUnknown("commit") from None
            except StoreError:
                pass  # asked again below: until the slot was read the outcome is unknown
            await self._services.clock.sleep(backoff.next_seconds())

    async def _id_in(self, slot: int) -> str:
        key = log_key(slot)
        try:
            return decode_header(key, (await self._store.get(key)).data).commit_id
        except ObjectNotFound:
            if await read_floor(self._store) > slot:
                # Occupied, then vacuumed: nobody can tell any more who had it.
                raise OutcomeUnknown("commit") from None
            raise

    async def _stands(self, slot: int) -> bool:
        """Whether an applied put is part of the log; until the floor can be read, nobody knows."""
        backoff = self._backoff()
        while True:
            try:
                return await self._counts(slot)
            except (StoreError, Corrupt):
                await self._services.clock.sleep(backoff.next_seconds())

    async def _counts(self, slot: int) -> bool:
        """Whether the slot, just found empty or just filled, is above everything vacuumed."""
        return self._is_recent() or await read_floor(self._store) <= slot

    def _is_recent(self) -> bool:
        return self.clock.elapsed() - self._confirmed_at < _DOUBT_SECONDS

    def _take_in(self, commit: Commit) -> None:
        """Applies somebody's commit, if it continues the log."""
        header = commit.header
        key = log_key(self.head.commit + 1)
        if header.commit != self.head.commit + 1:
            raise Corrupt(key, f"it says that it is commit {header.commit}")
        if header.previous != self.head.chain:
            raise Corrupt(key, "it does not continue the commit before it")
        if header.at < self.head.at:
            raise Corrupt(key, "its time is before that of the commit before it")
        self.state.fold(header.at, commit.events)
        self._writers[header.writer] = (
            self._writers.get(header.writer, (0, 0.0))[0] + 1,
            header.stamp.clock,
        )
        if header.writer != self._writer:
            self._courtesy.saw_another()
        head = Head(header.commit, header.stamp, commit.chain)
        self._close_commit(commit.events, head, commit.size_bytes)

    def _install(self, events: Sequence[Event], head: Head, size_bytes: int) -> None:
        """What was provisional stands."""
        self.state.settle()
        self.state.seal(head.at)
        before = self.tail.weight(self.state)
        self._close_commit(events, head, size_bytes)
        if self.tail.has_crossed(before, self.state):
            self.checkpointer.begin(self.state, self.head)

    def _close_commit(self, events: Sequence[Event], head: Head, size_bytes: int) -> None:
        self.head = head
        self.tail.add(head.commit, size_bytes, self.state.checkpoint_commit)
        self._reader.remember(head.commit, events)
        self._listener(events)

    async def _load_all(self) -> None:
        await self._load()
        await self.catch_up()

    async def _load(self) -> None:
        loaded = await load(self._store, self._reader, self._services)
        self.state, self.head, self.tail = loaded.state, loaded.head, loaded.tail
        self._listener(None)
