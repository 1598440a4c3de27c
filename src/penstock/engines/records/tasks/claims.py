"""Claims: candidates from the ready index, read and taken several at once.

A claim reserves nothing. It looks, reads some candidates, and takes each by its conditional put;
what another took first is lost to it, and it takes the next one. While nobody is in its way it goes
by the order. When it loses, it spreads: it picks at random among more of them, so that workers who
see the same candidates take different ones, and draws together again when it has won for a while.

What a look has found is kept as a *hand* and played before the next look. A backlog that is too
long for one look is walked through with a cursor per shard, around and around, so that nothing in
it is passed over for ever.

The charter is read once the candidates have been, and not before. A task that was read while the
queue was open existed when a later closing lists the tasks: so either the seal comes first and the
claim's put is refused, or the put does and the lease moves along. Had the charter been read first,
a closing could have come and gone in between, and the task might be one that it never saw. Nothing
waits for this: meanwhile the entry of the lease is put, which means nothing by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.expiry import Expiry
from penstock.engines.records.tasks.index import Index, Round, is_of, is_stale, parsed
from penstock.engines.records.tasks.names import (
    READY,
    Ready,
    ready_in,
    tag,
    task_key,
    tenant_prefix,
)
from penstock.engines.records.tasks.scanning import Scanner
from penstock.engines.records.tasks.turns import Clearance, Turns, TurnsLost
from penstock.errors import Corrupt, OutcomeUnknown, PenstockError
from penstock.kernel.commands import Claim
from penstock.kernel.job import Job
from penstock.kernel.stamps import PACE
from penstock.runtime.services import Services
from penstock.runtime.tasks import beside
from penstock.wire.task import Task

logger = logging.getLogger(__name__)

HAND_SECONDS: Final = 1.0
"""How old the hand may be while there is something in it that is wanted."""
SEARCH_SECONDS: Final = 1.0
"""How soon whoever waits looks on where there was too much that it does not want."""
CANDIDATES_AT_ONCE: Final = 64
SPARE_CANDIDATES: Final = 2
SPREAD_MAX: Final = 256
SPREAD_FACTOR: Final = 8
WINS_PER_STEP: Final = 64
SHUNNED_SECONDS: Final = 60.0
"""How long a task that can't be read is left alone."""
ANNOUNCED_SECONDS: Final = 0.2
"""How soon an entry is looked at again whose job is not there yet, and may never be."""

_FAR: Final = 1e11
"""Later than anything is due."""


class _Attempt(Struct):
    """A claim, and what has to be so when it takes something."""

    command: Claim
    again: Awaitable[list[Job]]
    """What the same claim was given before: then nothing is taken."""
    paused: Mapping[str, Sequence[str]]
    """By what it was decided what is wanted."""
    was_due: bool = False
    """Whether something was, of what was asked for, or may be and is paused."""
    is_over: bool = False
    """It is not so, or no longer: then there is no use in reading more tasks."""


class Claims:
    def __init__(
        self,
        index: Index,
        turns: Turns,
        charter: CharterStore,
        expiry: Expiry,
        scanner: Scanner,
        clock: CommitClock,
        services: Services,
        shards: Sequence[str],
    ) -> None:
        self._index = index
        self._turns = turns
        self._charter = charter
        self._expiry = expiry
        self._scanner = scanner
        self._clock = clock
        self._services = services
        self._shards = shards
        self._hand: dict[str, Ready] = {}
        self._dealt_at = -inf
        self._cursors: dict[str, str] = {}
        self._spread = 1
        self._wins = 0
        self._shunned: dict[str, float] = {}
        self._under_way: set[str] = set()
        """What other claims of this process are about to take."""

    async def take(self, command: Claim) -> list[Job]:
        await self._expiry.run_if_due()
        # Needed before anything is taken, but not to look for what could be.
        async with beside(self._again(command)) as again:
            won = await self._win_by_the_charter(command, again)
            return sorted(await again or won, key=_place)

    async def _win_by_the_charter(self, command: Claim, again: Awaitable[list[Job]]) -> list[Job]:
        """Nothing only if there is nothing to be had as the charter is now."""
        while True:
            paused = self._charter.current.paused
            attempt = _Attempt(command, again, paused, was_due=bool(paused))
            won = await self._win(attempt)
            if won:
                return won
            if not attempt.was_due:
                # Whatever the charter says by now: there is nothing that it could be about.
                return []
            await self._charter.refresh()
            self._charter.require_open()
            if self._charter.current.paused == attempt.paused:
                return []

    async def _win(self, attempt: _Attempt) -> list[Job]:
        won: list[Job] = []
        command = attempt.command
        wanted = self.wanted(command.tenant, command.queues, command.types)
        try:
            if self._services.clock.elapsed() - self._dealt_at <= HAND_SECONDS:
                await self._play(attempt, wanted, won)
            round = Round(self._shards)
            while self._may_go_on(attempt, won) and await self._deal(wanted, round):
                await self._play(attempt, wanted, won)
        except PenstockError as error:
            # What was won in spite of trouble with another is given out all the same; unless that
            # one may have been won, too: then all of them are given back by their operation.
            if not won or isinstance(error, OutcomeUnknown):
                raise
            logger.warning("a claim got less than it might have: %s", error)
        return won

    def wanted(
        self, tenant: str, queues: Sequence[str] | None, types: Sequence[str] | None
    ) -> Callable[[Ready], bool]:
        """Whether an entry may be of a job that a claim of these can get."""
        prefix = tenant_prefix(tenant)
        paused = {tag(queue) for queue in self._charter.current.paused.get(tenant, ())}
        queue_tags = None if queues is None else {tag(queue) for queue in queues}
        type_tags = None if types is None else {tag(type) for type in types}

        def is_wanted(entry: Ready) -> bool:
            half = len(entry.tags) // 2
            queue, type = entry.tags[:half], entry.tags[half:]
            return (
                entry.name.startswith(prefix)
                and queue not in paused
                and (queue_tags is None or queue in queue_tags)
                and (type_tags is None or type in type_tags)
            )

        return is_wanted

    async def next_due(self, wanted: Callable[[Ready], bool]) -> float | None:
        """When the earliest pending job that is wanted was or will be due, as far as one look
        tells; where that was not enough, when to look on."""
        look_on: list[float] = []
        if self._scanner.mode == "scan":
            entries, _ = await self._scanner.entries(self._shards)
        else:
            pages = await self._index.look(READY, self._shards, _FAR, _on_keys(wanted))
            entries = parsed(ready_in, [key for page in pages for key in page.keys])
            if any(page.is_unfinished for page in pages):
                look_on = [self._clock.now() + SEARCH_SECONDS]
        entries = [entry for entry in entries if wanted(entry)]
        due = [entry.due_at for entry in entries if not self._is_shunned(entry)]
        if len(due) < len(entries):
            look_on = [self._clock.now() + ANNOUNCED_SECONDS]
        return min([*due, *look_on], default=None)

    async def _again(self, command: Claim) -> list[Job]:
        """What the same claim was given before and still has."""
        now = self._clock.now()
        skew = self._charter.current.settings.clock_skew_seconds
        leases = await self._index.leases_of(
            command.operation, now - skew, now + command.lease_seconds / PACE + skew
        )
        found = await asyncio.gather(
            *(self._turns.tasks.read(task_key(entry.name)) for entry in leases)
        )
        jobs = [kept.document.job for kept in found if kept is not None]
        return sorted(
            (
                job
                for job in jobs
                if job is not None
                and job.tenant == command.tenant
                and job.lease is not None
                and job.lease.secret == command.operation
            ),
            key=_place,
        )

    async def _deal(self, wanted: Callable[[Ready], bool], round: Round) -> bool:
        """Looks for more candidates; False once everything was looked at."""
        if round.is_over:
            return False
        entries: list[Ready] = []
        if self._scanner.mode != "scan":
            entries = await self._look(wanted, round)
        if self._scanner.is_due(is_idle=not entries):
            scanned, is_all = await self._scanner.entries(self._shards)
            entries += scanned
            if is_all and self._scanner.mode == "scan":
                round.begin({})
                round.finish(self._shards)
        of_interest = [entry for entry in entries if wanted(entry)]
        filed_anew = await self._turns.ahead.file_anew(of_interest)
        entries += [entry for entry in filed_anew if isinstance(entry, Ready)]
        self._hand = {entry.key: entry for entry in entries}
        self._dealt_at = self._services.clock.elapsed()
        return True

    async def _look(self, wanted: Callable[[Ready], bool], round: Round) -> list[Ready]:
        """The next page of each shard, each from where the last claim left it."""
        shards = round.begin(self._cursors)
        cursors = {shard: at for shard, at in self._cursors.items() if shard in shards}
        pages = await self._index.look(READY, shards, self._clock.now(), _on_keys(wanted), cursors)
        round.searches += any(page.is_unfinished for page in pages)
        for page in pages:
            if page.cut_at is not None:
                self._cursors[page.shard] = page.cut_at
            else:
                self._cursors.pop(page.shard, None)
                round.finish([page.shard] if page.shard else shards)
        return parsed(ready_in, [key for page in pages for key in page.keys])

    async def _play(
        self,
        attempt: _Attempt,
        wanted: Callable[[Ready], bool],
        won: list[Job],
    ) -> None:
        """Takes from the hand until the claim has enough or the hand has nothing."""
        command = attempt.command
        while self._may_go_on(attempt, won):
            missing = command.count - len(won)
            picks = self._pick(wanted, missing)
            if not picks:
                return
            attempt.was_due = True
            await self._charter.keep_fresh()
            self._charter.require_open()
            # Not the spare ones: another claim, which finds nothing else, may have those.
            names = {entry.name for entry in picks[:missing]}
            self._under_way |= names
            try:
                fresh = await self._read_all(picks)
                taken = await self._take_all(attempt, [kept for _, kept in fresh[:missing]])
            finally:
                self._under_way -= names
            self._hand.update({entry.key: entry for entry, _ in fresh[missing:]})
            won += [job for job in taken if isinstance(job, Job)]
            troubles = [trouble for trouble in taken if isinstance(trouble, BaseException)]
            if troubles:
                # Where one says that it may have been taken, none says that nothing was.
                raise min(troubles, key=lambda trouble: not isinstance(trouble, OutcomeUnknown))
            is_lost = len(fresh) < len(picks) or not all(isinstance(job, Job) for job in taken)
            self._note(is_lost=is_lost)

    def _note(self, *, is_lost: bool) -> None:
        """Spreads at once and draws together slowly: those who were in the way still are."""
        self._wins = 0 if is_lost else self._wins + 1
        if is_lost:
            self._spread = min(SPREAD_FACTOR * self._spread, SPREAD_MAX)
        elif self._wins % WINS_PER_STEP == 0:
            self._spread = max(1, self._spread // SPREAD_FACTOR)

    def _pick(self, wanted: Callable[[Ready], bool], missing: int) -> list[Ready]:
        """The next candidates; some more than are missing where others may have been faster."""
        count = missing if self._spread == 1 else missing + SPARE_CANDIDATES
        count = min(count, CANDIDATES_AT_ONCE)
        now = self._clock.now()
        due = sorted(
            entry
            for entry in self._hand.values()
            if entry.due_at <= now
            and entry.name not in self._under_way
            and not self._is_shunned(entry)
            and wanted(entry)
        )
        first = due[: count * self._spread]
        picks: list[Ready] = []
        while first and len(picks) < count:
            place = int(self._services.luck() * len(first)) if self._spread > 1 else 0
            picks.append(first.pop(place))
        for entry in picks:
            del self._hand[entry.key]
        return picks

    async def _read_all(self, picks: Sequence[Ready]) -> list[tuple[Ready, Kept[Task]]]:
        """Those of the picks that are still what their entries say, each with its task."""
        found = await in_parallel(self._read, picks)
        return [(entry, kept) for entry, kept in zip(picks, found, strict=True) if kept is not None]

    async def _read(self, entry: Ready) -> Kept[Task] | None:
        key = task_key(entry.name)
        try:
            kept = await self._turns.tasks.read(key)
            if kept is not None:
                kept = await self._turns.settled(key, kept)
        except Corrupt as error:
            logger.warning("a job can't be claimed: %s", error)
            self._shun(entry.name, SHUNNED_SECONDS)
            return None
        if kept is not None and is_stale(entry, kept.document):
            self._index.forget([entry])
            return None
        if kept is None or not is_of(entry, kept.document):
            self._shun(entry.key, ANNOUNCED_SECONDS)
            return None
        return kept

    def _shun(self, what: str, seconds: float) -> None:
        now = self._services.clock.elapsed()
        self._shunned = {known: until for known, until in self._shunned.items() if until > now}
        self._shunned[what] = now + seconds

    def _is_shunned(self, entry: Ready) -> bool:
        until = max(self._shunned.get(entry.name, 0.0), self._shunned.get(entry.key, 0.0))
        return until > self._services.clock.elapsed()

    async def _take_all(
        self, attempt: _Attempt, tasks: Sequence[Kept[Task]]
    ) -> list[Job | BaseException | None]:
        if not tasks:
            return []
        # It begins here, now that they were read: see above.
        async with beside(self._clearance(attempt)) as clearance:
            return await asyncio.gather(
                *(self._take(attempt.command, kept, clearance) for kept in tasks),
                return_exceptions=True,
            )

    async def _clearance(self, attempt: _Attempt) -> bool:
        """Whether tasks that were read before this was asked may be taken."""
        is_open = await self._charter.still_open()
        is_same = self._charter.current.paused == attempt.paused
        # Shielded: where nobody needs this any more, the claim itself still needs that answer.
        again = asyncio.shield(attempt.again)
        attempt.is_over = not is_open or not is_same or bool(await again)
        return not attempt.is_over

    async def _take(self, command: Claim, kept: Kept[Task], clearance: Clearance) -> Job | None:
        one = Claim(
            command.tenant, command.operation, 1, command.lease_seconds,
            command.queues, command.types, command.worker,
        )  # fmt: skip
        try:
            task = kept.document
            jobs = await self._turns.take(
                task.tenant, task.id, one, kept, clearance=clearance, tries=1
            )
        except TurnsLost:
            return None
        for job in jobs:
            ends_by = self._clock.now() + command.lease_seconds / PACE
            self._expiry.note(min(job.lease_until, ends_by))
        return jobs[0] if jobs else None

    def _may_go_on(self, attempt: _Attempt, won: Sequence[Job]) -> bool:
        """Of a closed queue nothing more is looked at."""
        is_enough = len(won) >= attempt.command.count
        return not is_enough and not attempt.is_over and self._charter.move is None


def _on_keys(wanted: Callable[[Ready], bool]) -> Callable[[str], bool]:
    def is_wanted(key: str) -> bool:
        return any(map(wanted, parsed(ready_in, [key])))

    return is_wanted


def _place(job: Job) -> tuple[int, float, int]:
    """Where it was in the order of claims."""
    return job.priority, job.run_at, job.life
