"""Does a store of records obey the invariants? Its events are read, folded and compared with it.

A store of records has no chain of commits, and of many writers no one order of their times. What
it has instead is the same truth twice, as events and as records: the live jobs that follow from
the events must be the ones that are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from penstock.engines.records.shelves import shelf_of
from penstock.engines.records.views import all_jobs
from penstock.errors import FormatError, PenstockError
from penstock.insights.checks import Check
from penstock.insights.findings import (
    FROM_THE_BEGINNING,
    OF_EVERY_PART,
    ORDER,
    Findings,
    Law,
    stored,
)
from penstock.insights.stored_counters import COUNTERS, check_counters
from penstock.insights.wording import counted
from penstock.kernel.invariants import Committed, Violation
from penstock.kernel.job import Job
from penstock.kernel.state import QueueState
from penstock.kernel.transitions import IllegalTransition
from penstock.ports.records import RecordStore, Shelf
from penstock.wire.commit import decode_commit

COMMITS_PER_READ: Final = 64
FIRST_COMMIT: Final = 1
CONSERVATION: Final = 14
SAME_TRUTH: Final = "records follow from events"
_LIVE: Final = (Shelf.PENDING, Shelf.RUNNING)


class StoredRecords:
    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self.state: QueueState | None = None
        """What follows from the events, where they are still there from the beginning."""

    async def run(self) -> AsyncIterator[Check]:
        """One check after the other; whoever calls closes the store."""
        if not await self._store.exists():
            yield stored("tables", "warn", "there is no queue here yet")
            return
        try:
            await self._store.open()
            first = await self._store.first_commit()
            log = await self._read_log()
        except (FormatError, PenstockError) as error:
            yield stored("events", "fail", str(error))
            return
        events = sum(len(commit.events) for commit in log)
        yield stored("events", "ok", f"{counted(len(log), 'commit')}, {counted(events, 'event')}")
        try:
            yield await check_counters(self._store)
        except (FormatError, PenstockError) as error:
            yield stored(COUNTERS, "fail", str(error))
        for check in await asyncio.to_thread(_judged, OF_EVERY_PART, log):
            yield check
        if first != FIRST_COMMIT:
            yield stored("invariants", "skip", "events were vacuumed; it needs the beginning")
            return
        laws = dict(FROM_THE_BEGINNING)
        if self._store.capabilities.order != "strict":
            del laws[ORDER]
        for check in await asyncio.to_thread(_judged, laws, log):
            yield check
        yield await self._compared(log)

    async def _read_log(self) -> list[Committed]:
        log: list[Committed] = []
        while page := await self._store.commits(log[-1].commit if log else 0, COMMITS_PER_READ):
            for number, data in page:
                header, events = (
                    (commit := decode_commit(f"commit {number}", data)).header,
                    commit.events,
                )
                log.append(Committed(number, header.commit_id, header.at, events))
        return log

    async def _compared(self, log: list[Committed]) -> Check:
        state = QueueState()
        try:
            for commit in log:
                state.fold(commit.at, commit.events)
            kept = [job for tenant in state.tenants for job in await self._kept(tenant)]
        except (PenstockError, IllegalTransition, KeyError) as error:
            return stored(SAME_TRUTH, "fail", str(error))
        self.state = state
        found = {(job.tenant, job.id): job for job in kept}
        expected = {
            (job.tenant, job.id): job
            for tenancy in state.tenants.values()
            for job in tenancy.jobs.values()
            if shelf_of(job) in _LIVE
        }
        wrong = [
            Violation(CONSERVATION, "its record is not what its events say", None, tenant, id)
            for tenant, id in sorted(found.keys() | expected.keys())
            if found.get((tenant, id)) != expected.get((tenant, id))
        ]
        findings = Findings()
        findings.add(SAME_TRUTH, wrong)
        return findings.check(SAME_TRUTH, counted(len(expected), "live job"))

    async def _kept(self, tenant: str) -> list[Job]:
        return await all_jobs(self._store, tenant, _LIVE)


def _judged(laws: dict[str, Law], log: Sequence[Committed]) -> list[Check]:
    findings = Findings()
    findings.judge(laws, log)
    return list(findings.checks(f"over {counted(len(log), 'commit')}"))
