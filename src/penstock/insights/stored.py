"""Does what is stored obey the invariants? It is read as it is, without opening the queue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.engines.ledger.marker import read_marker
from penstock.errors import FormatError
from penstock.insights.checks import Check
from penstock.insights.findings import stored
from penstock.insights.stored_imports import import_objects
from penstock.insights.stored_log import LogCheckup, Progress
from penstock.insights.stored_single import SingleCheckup
from penstock.insights.stored_tasks import TasksCheckup
from penstock.kernel.state import QueueState
from penstock.ports.store import ObjectStore


class StoredState:
    def __init__(self, store: ObjectStore, progress: Progress | None = None) -> None:
        self._store = store
        self._progress = progress or _quietly
        self.state: QueueState | None = None
        """What is stored, if it could be made out."""

    async def run(self) -> AsyncIterator[Check]:
        try:
            marker = await read_marker(self._store)
        except FormatError as error:
            yield stored("marker", "fail", str(error))
            return
        if marker is None:
            yield stored("marker", "warn", "there is no queue here yet")
            return
        yield stored("marker", "ok", f"layout {marker.layout}, format level {marker.format}")
        if marker.layout == "single":
            single = SingleCheckup(self._store)
            async for check in single.run():
                yield check
            self.state = single.state
        elif marker.layout == "tasks":
            tasks = TasksCheckup(self._store, self._progress)
            async for check in tasks.run():
                yield check
            self.state = tasks.state
            return
        else:
            log = LogCheckup(self._store, self._progress)
            async for check in log.run():
                yield check
            self.state = log.state if log.is_whole else None
        if self.state is not None:
            yield await import_objects(self._store, self.state)


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


def _quietly(count: int, of: int) -> None:
    """Nobody watches."""
