"""The engine with one of the ten rules broken, each in the way that comes to mind first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from penstock.engines import calibration
from penstock.engines.handover import Handover
from penstock.engines.ledger.engine import LedgerEngine
from penstock.engines.ledger.imports.objects import AtHand
from penstock.engines.ledger.log import startup, vacuum
from penstock.engines.ledger.log.floor import read_floor
from penstock.engines.ledger.log.journal import LogJournal
from penstock.engines.ledger.log.vacuum import Vacuum
from penstock.engines.ledger.names import log_key
from penstock.engines.ledger.single.document import Document
from penstock.engines.ledger.sweep import needed_data
from penstock.engines.names import DATA
from penstock.engines.records.tasks import documents
from penstock.engines.records.tasks.documents import Documents
from penstock.engines.records.tasks.index import Index
from penstock.engines.requests import Query, Request
from penstock.errors import Corrupt, LeaseLost, PreconditionFailed, PutUnknown, StoreError
from penstock.kernel import decide, importing
from penstock.kernel.job import Job, Lease, State
from penstock.kernel.manifest import NeedsChunk
from penstock.kernel.stamps import Stamp
from penstock.kernel.state import QueueState
from penstock.ports.store import Create, ObjectStore, Overwrite
from penstock.wire import snapshot, values
from penstock.wire.level import UNREADABLE
from penstock.wire.snapshot import CheckpointHead

Patch = Callable[[pytest.MonkeyPatch], None]


def refused_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: "already exists" is taken for "somebody else was first"."""

    async def is_own(self: LogJournal, slot: int, commit_id: str) -> bool:
        return False

    patch.setattr(LogJournal, "_is_own", is_own)


def own_commits_are_strangers(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: nobody looks for the own commit id in what was read."""
    patch.setattr(Document, "contains", lambda self, commit, commit_id: False)


def unknown_is_decided_again(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: after an unknown outcome the batch is decided anew, as if it had been lost."""

    async def occupy(self: LogJournal, slot: int, data: bytes, commit_id: str) -> bool:
        try:
            await self._store.put(log_key(slot), data, Create())
            return True
        except PreconditionFailed:
            return await self._is_own(slot, commit_id)
        except PutUnknown:
            return False

    patch.setattr(LogJournal, "_occupy", occupy)


def nothing_there_is_the_tail(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: a 404 is believed without a look at the floor."""

    async def counts(self: LogJournal, slot: int) -> bool:
        return True

    async def stands(self: LogJournal, slot: int) -> bool:
        while True:
            try:
                return await read_floor(self._store) <= slot
            except (StoreError, Corrupt):
                await self._services.clock.sleep(0.1)

    patch.setattr(LogJournal, "_counts", counts)
    patch.setattr(LogJournal, "_stands", stands)


def applied_is_done(patch: pytest.MonkeyPatch) -> None:
    """Rule 5: a put that was applied counts, also where the slot had been vacated."""

    async def stands(self: LogJournal, slot: int) -> bool:
        return True

    patch.setattr(LogJournal, "_stands", stands)


def answers_come_from_the_past(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: a command that decides no event is answered at once."""
    confirmed = LedgerEngine._serve

    async def serve(self: LedgerEngine, requests: list[Request]) -> None:
        try:
            works = [request.work for request in requests]
            events, answers, _ = self._decide(
                works, self._journal.stamp(), AtHand(self._journal.imports)
            )
        except NeedsChunk:
            await confirmed(self, requests)
            return
        if events:
            self._journal.state.rollback()
        if events or any(isinstance(request.work, Query) for request in requests):
            await confirmed(self, requests)
            return
        for request, answer in zip(requests, answers, strict=True):
            request.answer(answer)

    patch.setattr(LedgerEngine, "_serve", serve)


def time_goes_back(patch: pytest.MonkeyPatch) -> None:
    """Rule 7: every process dates its commits by its own clock."""

    def stamp(self: calibration.CommitClock, previous: Stamp) -> Stamp:
        now = round(self._clock.now(), 6)
        return Stamp(now, now)

    patch.setattr(calibration.CommitClock, "stamp", stamp)


def any_clock_will_do(patch: pytest.MonkeyPatch) -> None:
    """Rule 7: nobody compares clocks with the store's."""
    patch.setattr(calibration.CommitClock, "require_close", lambda self, limit_seconds: None)
    patch.setattr(calibration.CommitClock, "compare", lambda self, *comparison: None)


def checkpoints_are_believed(patch: pytest.MonkeyPatch) -> None:
    """Rule 8: a checkpoint is loaded without asking whether it is what was written."""

    def decode(key: str, data: bytes) -> tuple[CheckpointHead, list[Job]]:
        line, _, body = data.partition(b"\n")
        try:
            return snapshot._head_decoder.decode(line), snapshot._job_decoder.decode_lines(body)
        except UNREADABLE as error:
            raise Corrupt(key, str(error)) from error

    patch.setattr(startup, "decode_checkpoint", decode)


def vacuum_proves_nothing(patch: pytest.MonkeyPatch) -> None:
    """Rule 8: the log is deleted below a checkpoint that nobody has folded again."""

    async def prove(self: Vacuum, older: int, newest: int) -> None:
        return

    patch.setattr(Vacuum, "prove", prove)


def any_lease_will_do(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: whoever once held a lease on the id may end what runs now."""

    def held(state: QueueState, tenant: str, id: str, lease: Lease, at: float) -> Job:
        job = state.find(tenant, id, at)
        if job is None or job.state is not State.RUNNING:
            raise LeaseLost(id)
        return job

    patch.setattr(decide, "held", held)


def every_call_is_a_new_one(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: a retry of a call whose job is dead by now begins a second life."""
    patch.setattr(decide, "_is_repeat", lambda new, operations: False)


def what_leaves_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: nothing is remembered of jobs that have left."""
    patch.setattr(QueueState, "departed", lambda self, *_: None)


def sweeps_forbid_nothing(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: orphans are deleted as they are found, while somebody is about to publish one."""

    async def sweep(store: ObjectStore, current: Any, execute: Any, horizon: float) -> int:
        found = [one.key async for one in store.list(DATA)]
        gone = [key for key in found if key not in needed_data(current())]
        for key in gone:
            await store.delete(key)
        return len(gone)

    async def leave_imports(*arguments: Any) -> int:
        return 0  # their sweep would forbid the others' publication on its way

    patch.setattr(vacuum, "sweep_data", sweep)
    patch.setattr(vacuum, "sweep_imports", leave_imports)


def runs_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Of imports: a run that is published again, after an answer was lost, is another run."""
    patch.setattr(importing, "_is_published", lambda state, command: False)


def tasks_are_overwritten(patch: pytest.MonkeyPatch) -> None:
    """Of tasks: a job is put as it was decided on, whoever has changed it since."""
    patch.setattr(documents, "Replace", lambda version: Overwrite())


def any_put_is_ones_own(patch: pytest.MonkeyPatch) -> None:
    """Of tasks: nobody looks whose put it was that stands there."""
    patch.setattr(documents, "NONCE_CHARACTERS", 0)


def no_put_is_ones_own(patch: pytest.MonkeyPatch) -> None:
    """Of tasks: what was refused is taken for lost, though it may be the echo of one's own yes."""

    async def refused(self: Documents[Any], *put: Any) -> None:
        return None

    patch.setattr(Documents, "_refused", refused)


def jobs_are_in_no_index(patch: pytest.MonkeyPatch) -> None:
    """Of tasks: a job is put without the entry by which it is found."""

    async def announce(self: Index, job: Job) -> None:
        return None

    patch.setattr(Index, "announce", announce)


def nobody_gives_back(patch: pytest.MonkeyPatch) -> None:
    """Invariant 19: a caller that leaves takes its leases along."""
    patch.setattr(Handover, "give_back", lambda self, request: None)


def values_are_skimmed(patch: pytest.MonkeyPatch) -> None:
    """Invariant 20: what a value became is looked over, but not read."""
    patch.setattr(values, "_decode", msgspec.json.Decoder(msgspec.Raw).decode)


class Variant(NamedTuple):
    patch: Patch
    layout: str | None
    """The one that it matters in, if only in one."""
    seed: int
    """One that caught it; should that have changed, the first ones are gone through."""
    seeds_max: int = 1000
    """Some bite in one seed of 160: enough of them for any change of the schedule."""


VARIANTS: dict[str, Variant] = {
    "1 refused is lost": Variant(refused_is_lost, "log", 3),
    "2 own commits are strangers": Variant(own_commits_are_strangers, "single", 0),
    "3 unknown is decided again": Variant(unknown_is_decided_again, "log", 9),
    "4 nothing there is the tail": Variant(nothing_there_is_the_tail, "log", 14),
    "5 applied is done": Variant(applied_is_done, "log", 28),
    "6 answers come from the past": Variant(answers_come_from_the_past, None, 21),
    "7 time goes back": Variant(time_goes_back, "log", 0),
    "7 any clock will do": Variant(any_clock_will_do, None, 24),
    "8 checkpoints are believed": Variant(checkpoints_are_believed, "log", 13),
    "8 vacuum proves nothing": Variant(vacuum_proves_nothing, "log", 195),
    "9 any lease will do": Variant(any_lease_will_do, None, 30),
    "10 sweeps forbid nothing": Variant(sweeps_forbid_nothing, "log", 2),
    "9 every call is a new one": Variant(every_call_is_a_new_one, None, 5),
    "9 what leaves is forgotten": Variant(what_leaves_is_forgotten, None, 5),
    "imports: runs are forgotten": Variant(runs_are_forgotten, "log", 0),
    "values are skimmed": Variant(values_are_skimmed, None, 0),
    "nobody gives back": Variant(nobody_gives_back, None, 0),
    "tasks: jobs are overwritten": Variant(tasks_are_overwritten, "tasks", 0),
    "tasks: any put is one's own": Variant(any_put_is_ones_own, "tasks", 0),
    "tasks: no put is one's own": Variant(no_put_is_ones_own, "tasks", 6),
    "tasks: jobs are in no index": Variant(jobs_are_in_no_index, "tasks", 0),
}
