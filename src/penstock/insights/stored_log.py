"""A check-up of layout `log`: read once, a part at a time, in memory that the live jobs bound.

Most invariants speak about the log from its beginning. Where vacuum has taken the beginning, only
those are asked that can be answered from the middle, and the state starts from a checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from penstock.engines.ledger.log.floor import FIRST_SLOT, read_floor
from penstock.engines.ledger.log.startup import checkpoints
from penstock.engines.ledger.names import LOG, commit_in, log_key
from penstock.errors import Corrupt, PenstockError
from penstock.insights.checks import Check
from penstock.insights.findings import (
    FROM_THE_BEGINNING,
    OF_EVERY_PART,
    OF_IMPORTS,
    OF_THE_CHAIN,
    Findings,
    stored,
)
from penstock.insights.retained import Retained
from penstock.insights.wording import counted
from penstock.kernel import invariants
from penstock.kernel.invariants import Committed, Tally
from penstock.kernel.state import QueueState
from penstock.kernel.transitions import IllegalTransition
from penstock.ports.store import ObjectStore
from penstock.wire.commit import CHAIN_START, decode_commit
from penstock.wire.snapshot import checkpoint_of, decode_checkpoint, restore

PARALLEL_READS: Final = 32
PART_EVENTS_MIN: Final = 20_000
"""How much is judged at a time; more where more has to be remembered, to judge each event about
twice and not more often."""
GRAIN_SECONDS: Final = 1.0
"""Of the store's stamps."""

Progress = Callable[[int, int], None]
"""Called with how many more commits are done, and how many there are."""


class LogCheckup:
    def __init__(self, store: ObjectStore, progress: Progress) -> None:
        self._store = store
        self._progress = progress
        self._findings = Findings()
        self._retained = Retained()
        self._tally = Tally()
        self._last: Committed | None = None
        self._commits = 0
        self._events = 0
        self._first = FIRST_SLOT
        self._reached = 0
        """The commit that the state is of."""
        self._checkpoints: dict[int, str] = {}
        self._folded = 0
        self._unfoldable = ""
        self.state = QueueState()
        """As of the end, once it was reached."""

    async def run(self) -> AsyncIterator[Check]:
        try:
            self._first = await read_floor(self._store)
            self._checkpoints = dict(await checkpoints(self._store))
            await self._begin()
            async for part in self._parts():
                await self._judge(part)
        except PenstockError as error:
            yield stored("log", "fail", str(error))
            return
        for check in self._told():
            yield check

    async def _begin(self) -> None:
        """From the log's beginning, or from the oldest checkpoint that its rest continues."""
        if self._first == FIRST_SLOT:
            return
        usable = [commit for commit in self._checkpoints if commit >= self._first - 1]
        if not usable:
            self._unfoldable = f"no checkpoint reaches the log's beginning, commit {self._first}"
            return
        self._reached = min(usable)
        key = self._checkpoints[self._reached]
        try:
            head, jobs = decode_checkpoint(key, (await self._store.get(key)).data)
        except Corrupt as error:
            self._unfoldable = str(error)
        else:
            self.state = restore(head.overview, jobs, head.at)

    async def _parts(self) -> AsyncIterator[list[Committed]]:
        numbers = [
            number
            async for entry in self._store.list(LOG)
            if (number := commit_in(entry.key)) is not None and number >= self._first
        ]
        part: list[Committed] = []
        events = 0
        for start in range(0, len(numbers), PARALLEL_READS):
            window = numbers[start : start + PARALLEL_READS]
            part += await asyncio.gather(*(self._committed(number) for number in window))
            if start == 0:
                self._require_beginning(part[0])
            events += sum(len(commit.events) for commit in part[-len(window) :])
            self._progress(len(window), len(numbers))
            if events >= max(PART_EVENTS_MIN, self._retained.events):
                yield part
                part, events = [], 0
        if part:
            yield part

    async def _committed(self, number: int) -> Committed:
        key = log_key(number)
        found = await self._store.get(key)
        commit = decode_commit(key, found.data)
        header = commit.header
        return Committed(
            header.commit, header.commit_id, header.at, commit.events, header.previous,
            commit.chain, header.epoch, found.modified_at, header.clock,
        )  # fmt: skip

    def _require_beginning(self, commit: Committed) -> None:
        if commit.commit != self._first:
            raise Corrupt(log_key(self._first), "the log should begin with it, and it is not there")
        if self._first == FIRST_SLOT and commit.previous != CHAIN_START:
            raise Corrupt(log_key(self._first), "it continues a log that is not here")

    async def _judge(self, part: list[Committed]) -> None:
        self._commits += len(part)
        self._events += sum(len(commit.events) for commit in part)
        after = part[0].commit - 1
        await asyncio.to_thread(self._ask, part, after)
        if not self._unfoldable:
            await self._fold(part)
        self._retained.take_in(part, self.state)
        self._tally.forget_all_but(self.state)
        self._last = part[-1]

    def _ask(self, part: list[Committed], after: int) -> None:
        linked = part if self._last is None else [self._last, *part]
        self._findings.judge(OF_THE_CHAIN, linked, after)
        known = [*self._retained.prelude(), *part]
        self._findings.judge(OF_EVERY_PART, known, after)
        if self._first == FIRST_SLOT and not self._unfoldable:
            # Without a state nobody knows which stories matter, and half of one proves nothing.
            self._findings.judge(FROM_THE_BEGINNING | OF_IMPORTS, known, after)
            self._tally.see(part)
        allowed = self.state.settings.clock_skew_seconds + GRAIN_SECONDS
        late = invariants.times_are_the_stores(linked, allowed)
        self._findings.add("times are the store's", (each for each in late if each.commit != after))

    async def _fold(self, part: list[Committed]) -> None:
        """Comparing each checkpoint on the way with what it should be."""
        try:
            for commit in part:
                if commit.commit <= self._reached:
                    continue
                self.state.fold(commit.at, commit.events)
                if commit.commit in self._checkpoints:
                    await self._compare(commit)
        except (PenstockError, IllegalTransition, KeyError) as error:
            self._unfoldable = f"the log can't be folded: {error}"

    async def _compare(self, commit: Committed) -> None:
        number = commit.commit
        fold = checkpoint_of(
            self.state, commit=number, chain=commit.chain, at=commit.at, clock=commit.clock
        )
        data = (await self._store.get(self._checkpoints[number])).data
        found = invariants.checkpoints_are_folds([(number, data)], {number: fold})
        self._findings.add("checkpoints are folds", found)
        self._folded += 1

    def _told(self) -> list[Check]:
        begins = "" if self._first == FIRST_SLOT else f", from commit {self._first:,} on"
        commits = counted(self._commits, "commit")
        told = [stored("log", "ok", f"{commits}, {counted(self._events, 'event')}{begins}")]
        over = f"over {commits}"
        told += [self._findings.check(law, over) for law in (*OF_THE_CHAIN, *OF_EVERY_PART)]
        for law in FROM_THE_BEGINNING | OF_IMPORTS:
            if self._first == FIRST_SLOT:
                told.append(self._findings.check(law, over))
            else:
                told.append(stored(law, "skip", "the log was vacuumed; it needs the beginning"))
        if self._unfoldable:
            told.append(stored("checkpoints are folds", "fail", self._unfoldable))
            return told
        folded = f"{self._folded} of {len(self._checkpoints)} folded"
        told.append(self._findings.check("checkpoints are folds", folded))
        if self._first == FIRST_SLOT:
            self._findings.add("counts are conserved", self._tally.against(self.state))
            unadmitted = self._tally.unadmitted_against(self.state)
            self._findings.add("counts are conserved", unadmitted)
            said = "the state counts what the log says"
            told.append(self._findings.check("counts are conserved", said))
        allowed = self.state.settings.clock_skew_seconds + GRAIN_SECONDS
        told.append(self._findings.check("times are the store's", f"within {allowed:g} s"))
        return told

    @property
    def is_whole(self) -> bool:
        """Whether the state was folded to the end of the log."""
        return self._commits > 0 and not self._unfoldable
