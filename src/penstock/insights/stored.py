"""Does what is stored obey the invariants? The log is read as it is, without opening the queue.

Most invariants speak about the log from its beginning. Where vacuum has taken the beginning, only
those are asked that can be answered from the middle, and the state starts from a checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from penstock.engines.ledger.log.floor import FIRST_SLOT, read_floor
from penstock.engines.ledger.log.startup import checkpoints
from penstock.engines.ledger.marker import read_marker
from penstock.engines.ledger.names import LOG, QUEUE, commit_in, log_key
from penstock.engines.ledger.single.document import decode_document
from penstock.errors import Corrupt, FormatError, PenstockError
from penstock.insights.checks import Check, Verdict
from penstock.kernel import invariants
from penstock.kernel.invariants import Committed, Violation
from penstock.kernel.state import QueueState
from penstock.kernel.transitions import IllegalTransition
from penstock.ports.store import ObjectStore
from penstock.wire.commit import CHAIN_START, decode_commit
from penstock.wire.snapshot import checkpoint_of, decode_checkpoint, restore

PARALLEL_READS: Final = 32
SHOWN_MAX: Final = 3
"""How many violations of one invariant are quoted."""

Law = Callable[[Sequence[Committed]], list[Violation]]

FROM_ANYWHERE: Final[dict[str, Law]] = {
    "log is a chain": invariants.log_is_a_chain,
    "tokens increase": invariants.tokens_increase,
}
FROM_THE_BEGINNING: Final[dict[str, Law]] = {
    "leases are exclusive": invariants.leases_are_exclusive,
    "terminal is final": invariants.terminal_is_final,
    "attempts are counted": invariants.attempts_are_counted,
    "keys are unique": invariants.keys_are_unique,
    "claims follow the order": invariants.claims_follow_the_order,
    "pauses hold": invariants.pauses_hold,
}


class StoredState:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._log: list[Committed] = []
        self.state: QueueState | None = None

    async def run(self) -> AsyncIterator[Check]:
        try:
            marker = await read_marker(self._store)
        except FormatError as error:
            yield stored_check("marker", "fail", str(error))
            return
        if marker is None:
            yield stored_check("marker", "warn", "there is no queue here yet")
            return
        yield stored_check("marker", "ok", f"layout {marker.layout}, format level {marker.format}")
        checks = self._check_single() if marker.layout == "single" else self._check_log()
        async for check in checks:
            yield check

    async def _check_single(self) -> AsyncIterator[Check]:
        try:
            document = decode_document((await self._store.get(QUEUE)).data)
            self.state = restore(
                document.overview, [record.job for record in document.jobs], document.at
            )
        except PenstockError as error:
            yield stored_check("queue.json", "fail", str(error))
            return
        yield stored_check(
            "queue.json", "ok", f"{len(document.jobs):,} jobs as of commit {document.commit:,}"
        )
        yield stored_check("invariants", "skip", "layout single keeps no log to check them against")

    async def _check_log(self) -> AsyncIterator[Check]:
        try:
            first = await read_floor(self._store)
            self._log = await self._read_log(first)
        except PenstockError as error:
            yield stored_check("log", "fail", str(error))
            return
        events = sum(len(commit.events) for commit in self._log)
        begins = "" if first == FIRST_SLOT else f", from commit {first:,} on"
        yield stored_check("log", "ok", f"{len(self._log):,} commits, {events:,} events{begins}")
        for name, law in FROM_ANYWHERE.items():
            yield await judged(name, law, self._log)
        for name, law in FROM_THE_BEGINNING.items():
            if first == FIRST_SLOT:
                yield await judged(name, law, self._log)
            else:
                yield stored_check(name, "skip", "the log was vacuumed; it needs the beginning")
        async for check in self._check_states(first):
            yield check

    async def _check_states(self, first: int) -> AsyncIterator[Check]:
        """Folds the log, comparing each checkpoint on the way with what it should be."""
        try:
            stored = await self._checkpoints()
            state, folds = self._folded(first, stored)
        except (PenstockError, IllegalTransition, KeyError) as error:
            yield stored_check("checkpoints are folds", "fail", f"the log can't be folded: {error}")
            return
        later = [(commit, data) for commit, data in stored if commit in folds]
        found = invariants.checkpoints_are_folds(later, folds)
        yield verdict_on("checkpoints are folds", found, f"{len(later)} of {len(stored)} folded")
        self.state = state
        if first == FIRST_SLOT:
            counted = invariants.counts_are_conserved(self._log, state)
            yield verdict_on("counts are conserved", counted, "the state counts what the log says")
        allowed = state.settings.clock_skew_seconds + 1.0  # and the grain of the store's stamps
        late = invariants.times_are_the_stores(self._log, allowed)
        yield verdict_on("times are the store's", late, f"within {allowed:g} s")

    async def _read_log(self, first: int) -> list[Committed]:
        """Every commit from the floor on, in parallel; a hole or a bad object is an error."""
        numbers = [
            number
            async for entry in self._store.list(LOG)
            if (number := commit_in(entry.key)) is not None and number >= first
        ]
        log: list[Committed] = []
        for start in range(0, len(numbers), PARALLEL_READS):
            window = numbers[start : start + PARALLEL_READS]
            log += await asyncio.gather(*(self._committed(number) for number in window))
        if log and log[0].commit != first:
            raise Corrupt(log_key(first), "the log should begin with it, and it is not there")
        if first == FIRST_SLOT and log and log[0].previous != CHAIN_START:
            raise Corrupt(log_key(first), "it continues a log that is not here")
        return log

    async def _committed(self, number: int) -> Committed:
        key = log_key(number)
        stored = await self._store.get(key)
        commit = decode_commit(key, stored.data)
        header = commit.header
        return Committed(
            header.commit, header.commit_id, header.at, commit.events, header.previous,
            commit.chain, header.epoch, stored.modified_at,
        )  # fmt: skip

    async def _checkpoints(self) -> list[tuple[int, bytes]]:
        """Oldest first."""
        return [
            (commit, (await self._store.get(key)).data)
            for commit, key in reversed(await checkpoints(self._store))
        ]

    def _folded(
        self, first: int, stored: list[tuple[int, bytes]]
    ) -> tuple[QueueState, dict[int, bytes]]:
        """The state at the end of the log, and what each checkpoint on the way should hold."""
        state, reached = QueueState(), 0
        if first > FIRST_SLOT:
            usable = [(commit, data) for commit, data in stored if commit >= first - 1]
            if not usable:
                raise Corrupt("checkpoint/", f"none reaches the log's beginning, commit {first}")
            reached, data = usable[0]
            head, jobs = decode_checkpoint(f"checkpoint {reached}", data)
            state = restore(head.overview, jobs, head.at)
        wanted, folds = {commit for commit, _ in stored}, {}
        for commit in self._log:
            if commit.commit <= reached:
                continue
            state.fold(commit.at, commit.events)
            if commit.commit in wanted:
                folds[commit.commit] = checkpoint_of(
                    state, commit=commit.commit, chain=commit.chain, at=commit.at
                )
        return state, folds


def overdue_leases(state: QueueState, now: float) -> Check:
    """Leases that are dead and that nobody has taken back."""
    limit = now - state.settings.clock_skew_seconds
    dead = [
        job
        for tenancy in state.tenants.values()
        for job in tenancy.jobs.values()
        if job.lease_until is not None and job.lease_until < limit and not job.is_terminal
    ]
    if not dead:
        return Check("now", "dead leases", "ok", "none")
    words = f"{len(dead):,} wait to be taken back: is there a worker or a monitor?"
    return Check("now", "dead leases", "warn", words)


async def judged(name: str, law: Law, log: Sequence[Committed]) -> Check:
    return verdict_on(name, await asyncio.to_thread(law, log), f"over {len(log):,} commits")


def verdict_on(name: str, found: list[Violation], fine: str) -> Check:
    if not found:
        return stored_check(name, "ok", fine)
    quoted = "; ".join(str(violation) for violation in found[:SHOWN_MAX])
    return stored_check(name, "fail", f"{len(found):,} violations: {quoted}")


def stored_check(check: str, verdict: Verdict, detail: str) -> Check:
    return Check("stored", check, verdict, detail)
