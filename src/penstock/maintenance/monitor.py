"""The monitor: takes back dead leases, vacuums, forgets dead workers. One of many leads.

A queue lives without it: claims take back dead leases on their way and writers make checkpoints.
With it, jobs come back although nobody claims, and old objects go.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.client.queue import Queue
from penstock.errors import Moved, PenstockError
from penstock.kernel.settings import DAY_SECONDS, HOUR_SECONDS
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services

logger = logging.getLogger(__name__)

ROLE: Final = "monitor"
ROUND_SECONDS: Final = 15.0
LEADERSHIP_SECONDS: Final = 4 * ROUND_SECONDS
"""How long after its last round a leader that died is waited for."""
VACUUM_SECONDS: Final = HOUR_SECONDS
REPAIR_SECONDS: Final = 300.0
"""How often the indexes are compared with the jobs, where they can differ."""
WORKER_FORGOTTEN_SECONDS: Final = DAY_SECONDS


class Monitor:
    def __init__(
        self,
        queue: Queue,
        name: str,
        services: Services | None = None,
        *,
        round_seconds: float = ROUND_SECONDS,
    ) -> None:
        self._queue = queue
        self._name = name
        self._services = services or Services()
        self._round_seconds = round_seconds
        self._vacuumed_at = self._repaired_at = float("-inf")
        self._complaints = Complaints(logger, self._services.clock)

    async def run(self) -> None:
        """Rounds without end; those of a monitor that does not lead are one small read."""
        while True:
            await self.round()
            await self._services.clock.sleep(self._round_seconds)

    async def round(self) -> bool:
        """One round, if this monitor leads; trouble with one duty leaves the others."""
        if not await self._leads():
            return False
        await self._do("expiry", self._expire)
        await self._do("forgetting dead workers", self._forget_workers)
        now = self._services.clock.elapsed()
        if now - self._repaired_at >= REPAIR_SECONDS:
            self._repaired_at = now
            await self._do("the repair of indexes", self._repair)
        if now - self._vacuumed_at >= VACUUM_SECONDS:
            self._vacuumed_at = now
            await self._do("vacuum", self._vacuum)
        return True

    async def _leads(self) -> bool:
        try:
            leads = await self._queue.elect(ROLE, self._name, LEADERSHIP_SECONDS)
        except PenstockError as error:
            self._complaints.trouble("the election of a leader", error)
            return False
        self._complaints.fine()
        return leads

    async def _do(self, duty: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Moved:
            raise  # there is nothing left to take care of
        except PenstockError as error:
            self._complaints.trouble(duty, error)

    async def _expire(self) -> None:
        expired = await self._queue.expire()
        if expired:
            logger.info("took back %d dead leases", expired)

    async def _repair(self) -> None:
        report = await self._queue.repair()
        if report.added or report.removed or report.settled:
            logger.info(
                "repaired the indexes: %d entries added, %d removed, %d enqueues settled",
                report.added, report.removed, report.settled,
            )  # fmt: skip

    async def _vacuum(self) -> None:
        report = await self._queue.vacuum()
        if report.log_objects:
            logger.info("vacuumed %d log objects below %d", report.log_objects, report.floor)

    async def _forget_workers(self) -> None:
        since = self._services.clock.now() - WORKER_FORGOTTEN_SECONDS
        for worker in await self._queue.workers():
            if worker.seen_at < since:
                await self._queue.unregister(worker.id)
