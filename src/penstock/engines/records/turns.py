"""One turn: from what was found to a small state, decided by the kernel, and what to write.

The state holds no more than the batch can touch (`needs`), and its counters begin at zero: what
they say in the end is the difference. Nothing of it outlives the turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from penstock.engines.records.charters import charter_of, prepared
from penstock.engines.records.needs import is_read, need_of
from penstock.engines.records.shelves import Known, job_in, record_of, shelf_of
from penstock.engines.records.waiting import wakes_of
from penstock.engines.requests import Spoiled, Work, decide_all
from penstock.kernel.batch import Batch
from penstock.kernel.changes import Changes
from penstock.kernel.commands import Claim, Expire
from penstock.kernel.events import Event, commit_of
from penstock.kernel.job import Job, State
from penstock.kernel.stamps import THE_BEGINNING, Stamp, next_stamp
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Scope
from penstock.ports.counters import CountChange, DueChange, minute_of
from penstock.ports.records import (
    NOTHING,
    Change,
    Departure,
    Found,
    Head,
    HoldChange,
    KeyHold,
    Need,
    Put,
    Remembered,
    Removal,
    Shelf,
    Unheard,
)
from penstock.wire.commit import CHAIN_START, Unencodable, encode_commit
from penstock.wire.level import level_of
from penstock.wire.record import Charter, decode_charter, encode_charter

ID_CHARACTERS: Final = 16
"""Of writers and commits: nobody has to guess them, and every commit has both."""


class Turn:
    """What one batch asks, decides and answers; again from the start if it has to be."""

    def __init__(
        self,
        works: Sequence[Work],
        luck: Callable[[], float],
        writer: str,
        commit_id: str,
        retention_seconds: float,
        known: Known,
    ) -> None:
        self.answers: list[Any] = []
        self.events: list[Event] = []
        self.charter = Charter()
        """As it is after the turn, with its version."""
        self.charter_version = 0
        self._works = list(works)
        self.is_written = False
        """Whether something was given to the store to be written, so that it may have been."""
        self.is_read = is_read(self._works)
        self._luck = luck
        self._writer = writer
        self._retention_seconds = retention_seconds
        """Of events, where nothing else is configured."""
        self._known = known
        self._commit_id = commit_id
        self.head = Head(0, 0.0, 0, b"", 0, 0)
        self._departed_asked: Sequence[tuple[str, str]] = ()
        self._now = 0.0
        self._before = self.stamp = THE_BEGINNING

    def begin(self, now: float) -> None:
        """Another attempt; `now` is when the batch was formed, not when a lock was had."""
        self._now = now
        self.is_written = False

    def begin_again(self, works: Sequence[Work]) -> None:
        """Before an attempt that is not the first: what there is to decide by then."""
        self._works = list(works)

    def ask(self, head: Head) -> Need:
        self.head, self.charter_version = head, head.charter_version
        self._before = Stamp(head.at, head.clock)
        self.stamp = next_stamp(self._before, self._now)
        self.charter = charter_in(head)
        need = need_of(
            self._works, self.charter, head, self.stamp.at, has_news=self._must_note_time
        )
        self._departed_asked = need.departed
        return need

    def decide(self, found: Found) -> Change | None:
        at, state = self.stamp.at, prepared(self.charter)
        versions = self._fill(state, found)
        state.begin()
        batch = Batch(state, at, found.commit, self._luck)
        try:
            self.answers, _ = decide_all(batch, state, self._works, at)
            self.events = batch.events
            if not batch.events and found is not NOTHING and self._must_write(state):
                batch.note_time()
            if not batch.events:
                return None
            assert found is not NOTHING, "what has no number can't be written"
            state.seal(at)
            change = self._change(found, state, versions)
        except (Spoiled, Unencodable) as broken:
            raise broken.error from None
        self.is_written = True
        return change

    @property
    def _must_note_time(self) -> bool:
        return not self.is_read and self.stamp.was_set_back_since(self._before)

    def _must_write(self, state: QueueState) -> bool:
        """Whether something has to be said although nothing has happened.

        Whoever keeps house lets go of what is ripe: nobody else does while the queue is idle.
        """
        return self._must_note_time or (
            any(isinstance(work, Expire) for work in self._works)
            and any(True for _ in state.retention.outlived(state.settings, self.stamp.at))
        )

    def _fill(self, state: QueueState, found: Found) -> dict[int, int]:
        """Puts what was found into the state; answers the versions of the records by life."""
        versions, completed = dict[int, int](), 0
        state.pending.at = self.head.at
        for stored in found.records:
            versions[stored.life] = stored.version
            completed += stored.shelf == Shelf.COMPLETED
            state.adopt(self._known.job_in(stored))
        for held in found.holds:
            state.adopt_hold(held.tenant, held.scope, held.hold)
        for left in found.departed:
            state.departures.remember(left.tenant, left.id, left.departed)
        state.retention.completed_elsewhere = self.head.completed - completed
        return versions

    def _change(self, found: Found, state: QueueState, versions: dict[int, int]) -> Change:
        changes, commit = state.changed(), found.commit
        before = self.charter
        puts = list(self._puts(changes, versions))
        body, _ = encode_commit(
            self.events,
            commit=commit,
            commit_id=self._commit_id,
            writer=self._writer,
            at=self.stamp.at,
            clock=self.stamp.lagging_clock,
            previous=CHAIN_START,
            level=level_of(state.moves),
        )
        return Change(
            commit=commit,
            at=self.stamp.at,
            clock=self.stamp.clock,
            events=body,
            charter_found=self.head.charter_version,
            charter=self._new_charter(state, commit),
            removals=list(_removals(changes, versions)),
            puts=puts,
            holds=list(_hold_changes(changes, state)),
            unheard=list(self._unheard(puts, found)),
            counts=list(_count_changes(changes)),
            due=list(_due_changes(changes, self.stamp.at)),
            completed=_completed_change(changes),
            departures=[Departure(job.tenant, job.id, job.life, job.trail) for job in changes.left],
            remembered=[
                Remembered(tenant, id, departed)
                for (tenant, id), departed in changes.departed.items()
            ],
            sides={**dict.fromkeys(_newly_named(changes)), **state.released},
            lapsed_at=self.stamp.at,
            charter_closes=state.moves != before.moves or state.swept_before != before.swept_before,
            vacuum_before=self.stamp.at
            - self.charter.settings.retention_seconds(self._retention_seconds),
            vacuum_below=first_needed(self.charter, self.head),
            wakes=wakes_of(
                changes,
                self._left_over(found, changes),
                self.stamp.at,
                state.settings.clock_skew_seconds,
            ),
        )

    def _puts(self, changes: Changes, versions: dict[int, int]) -> Iterator[Put]:
        for _, after in changes.jobs:
            if after is not None:
                record = record_of(after)
                self._known.note(record, after)
                yield Put(record, versions.get(after.life))

    def _left_over(self, found: Found, changes: Changes) -> list[Job]:
        """What several claims may have looked at and none has taken. One alone takes all it can."""
        if len(self._works) == 1 or not any(isinstance(work, Claim) for work in self._works):
            return []
        changed = {before.life for before, _ in changes.jobs if before is not None}
        return [
            job_in(stored)
            for stored in found.records
            if stored.shelf == Shelf.PENDING and stored.life not in changed
        ]

    def _unheard(self, puts: Sequence[Put], found: Found) -> Iterator[Unheard]:
        """Of the lives that begin here those whose call may be one that came and went before."""
        if not self._departed_asked:
            return
        begun = {(put.record.tenant, put.record.id) for put in puts if put.found is None}
        known = {(one.tenant, one.id): one.departed for one in found.departed}
        for tenant, id in self._departed_asked:
            if (tenant, id) in begun:
                yield Unheard(tenant, id, known.get((tenant, id)))

    def _new_charter(self, state: QueueState, commit: int) -> bytes | None:
        charter = charter_of(state)
        if charter == self.charter:
            return None
        self.charter, self.charter_version = charter, commit
        return encode_charter(charter)


def charter_in(head: Head) -> Charter:
    return decode_charter("the charter", head.charter) if head.charter else Charter()


def first_needed(charter: Charter, head: Head) -> int:
    """What is below this can be vacuumed if it is old: the newest, or what a consumer has read.

    What can't be read yet may be there one day with a lower number, however old.
    """
    reached = (commit_of(position) for position, _ in charter.consumers.values())
    return min([head.readable, *reached])


def _removals(changes: Changes, versions: dict[int, int]) -> Iterator[Removal]:
    for before, after in changes.jobs:
        if before is not None and (after is None or after.life != before.life):
            yield Removal(before.tenant, before.id, before.life, versions[before.life])


def _hold_changes(changes: Changes, state: QueueState) -> Iterator[HoldChange]:
    for (tenant, scope), found in changes.keys.items():
        yield HoldChange(
            tenant, scope, found.life if found else None, _key_hold(state, tenant, scope)
        )
    for before, after in changes.jobs:
        if before is None or before.key is None or before.is_terminal:
            continue
        if after is None or after.is_terminal:
            # If it still holds its key, then from now on time alone can free that.
            scope = (before.queue, before.type, before.key)
            kept = _key_hold(state, before.tenant, scope)
            is_own = kept is not None and kept.hold.life == before.life
            if is_own and (before.tenant, scope) not in changes.keys:
                yield HoldChange(before.tenant, scope, before.life, kept)


def _key_hold(state: QueueState, tenant: str, scope: Scope) -> KeyHold | None:
    tenancy = state.tenancy(tenant)
    hold = tenancy.keys.get(scope)
    if hold is None:
        return None
    job = tenancy.jobs.get(hold.id)
    is_live = job is not None and job.life == hold.life and not job.is_terminal
    return KeyHold(tenant, scope, hold, None if is_live else hold.until)


def _count_changes(changes: Changes) -> Iterator[CountChange]:
    now: Counter[tuple[str, str, str, State]] = Counter()
    left: Counter[tuple[str, str, str, State]] = Counter()
    for before, after in changes.jobs:
        if before is not None:
            now[before.tenant, before.queue, before.type, before.state] -= 1
        if after is not None:
            now[after.tenant, after.queue, after.type, after.state] += 1
    for job in changes.left:
        # It stays in the state that it ended in.
        now[job.tenant, job.queue, job.type, job.state] += 1
        left[job.tenant, job.queue, job.type, job.state] += 1
    for place, number in now.items():
        if number or left[place]:
            yield CountChange(*place, number, left[place])


def _due_changes(changes: Changes, at: float) -> Iterator[DueChange]:
    this_minute = minute_of(at)
    due: Counter[tuple[str, str, str, int]] = Counter()
    for before, after in changes.jobs:
        for job, change in ((before, -1), (after, 1)):
            # Most are due at once, and are told apart without working out a minute.
            if job is not None and job.state is State.PENDING and job.run_at > at:
                minute = minute_of(job.run_at)
                if minute > this_minute:
                    due[job.tenant, job.queue, job.type, minute] += change
    for place, records in due.items():
        if records:
            yield DueChange(*place, records)


def _completed_change(changes: Changes) -> int:
    return sum(_is_completed(after) - _is_completed(before) for before, after in changes.jobs)


def _is_completed(job: Job | None) -> int:
    return job is not None and job.is_terminal and shelf_of(job) is Shelf.COMPLETED


def _newly_named(changes: Changes) -> Iterator[str]:
    for before, after in changes.jobs:
        for name in ("payload_key", "result_key"):
            key = after and getattr(after, name)
            if key and key != (before and getattr(before, name)):
                yield key
