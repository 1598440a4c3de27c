"""The monitor: takes back dead leases, vacuums, forgets dead workers. One of many leads.

A queue lives without it: claims take back dead leases on their way and writers make checkpoints.
With it, jobs come back although nobody claims, and old objects go.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from penstock.client.queue import Queue
from penstock.errors import InvalidInput, Moved, PenstockError
from penstock.kernel.events import EXPIRED
from penstock.kernel.job import Job
from penstock.kernel.plain import plain_seconds
from penstock.kernel.settings import HOUR_SECONDS
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import within

logger = logging.getLogger(__name__)

ROLE: Final = "monitor"
FAREWELL_SECONDS_MAX: Final = 2.0
"""How long a store may take to hear that a leader goes."""
ROUNDS_PER_LEADERSHIP: Final = 4
"""How many rounds a leader that died is waited for."""


class MonitorOptions(Struct, frozen=True, kw_only=True):
    """How often a monitor does what."""

    round_seconds: float = 15.0
    """Taking back dead leases, looking for dead workers."""
    repair_seconds: float = 300.0
    """Comparing the indexes with the jobs, where they can differ."""
    vacuum_seconds: float = HOUR_SECONDS
    forget_seconds: float = HOUR_SECONDS
    """How long a worker that died stays in the list."""

    def __post_init__(self) -> None:
        for option in self.__struct_fields__:
            seconds = plain_seconds(option, getattr(self, option))
            if seconds == 0:
                raise InvalidInput(f"{option}=0: a monitor needs a pause")
            force_setattr(self, option, seconds)


class Monitor:
    def __init__(
        self,
        queue: Queue,
        name: str,
        services: Services | None = None,
        options: MonitorOptions | None = None,
        stalled: Callable[[Job, int], None] | None = None,
    ) -> None:
        self._queue = queue
        self._name = name
        self._services = services or Services()
        self._options = options or MonitorOptions()
        self._vacuumed_at = self._repaired_at = float("-inf")
        self._is_leader = False
        self._stalled = stalled
        """Hears of this tenant's jobs whose leases ran out, with the attempt, whoever saw it."""
        self._running: dict[str, Job] = {}
        """What ran when it was last looked at; only where somebody wants to hear."""
        self._silent: set[str] = set()
        """Workers of which it was said that they are."""
        self._complaints = Complaints(logger, self._services.clock)

    async def run(self) -> None:
        """Rounds without end; those of a monitor that does not lead are one small read."""
        try:
            while True:
                await self.round()
                await self._services.clock.sleep(self._options.round_seconds)
        finally:
            await self.resign()

    async def resign(self) -> None:
        """Gives the lead up, so that the next one need not wait until it lapses."""
        if not self._is_leader:
            return
        self._is_leader = False
        farewell = self._queue.elect(ROLE, self._name, 0.0)
        try:
            if not await within(FAREWELL_SECONDS_MAX, self._services.clock, farewell):
                raise TimeoutError
        except (PenstockError, TimeoutError) as error:
            logger.info("the lead of the monitors lapses by itself: %s", error)

    async def round(self) -> bool:
        """One round, if this monitor leads; trouble with one duty leaves the others."""
        if not await self._leads():
            return False
        await self._do("expiry", self._expire)
        await self._do("forgetting dead workers", self._forget_workers)
        now = self._services.clock.elapsed()
        if now - self._repaired_at >= self._options.repair_seconds:
            self._repaired_at = now
            await self._do("the repair of indexes", self._repair)
        if now - self._vacuumed_at >= self._options.vacuum_seconds:
            self._vacuumed_at = now
            await self._do("vacuum", self._vacuum)
        return True

    async def _leads(self) -> bool:
        seconds = ROUNDS_PER_LEADERSHIP * self._options.round_seconds
        try:
            leads = await self._queue.elect(ROLE, self._name, seconds)
        except PenstockError as error:
            self._complaints.trouble("the election of a leader", error)
            return False
        self._complaints.fine()
        self._is_leader = leads
        return leads

    async def _do(self, duty: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Moved:
            raise  # there is nothing left to take care of
        except PenstockError as error:
            self._complaints.trouble(duty, error)
        except Exception:
            logger.exception("%s failed in a way that it should not; the others go on", duty)

    async def _expire(self) -> None:
        if self._stalled is not None:
            self._running |= await self._under_way()
        expired = await self._queue.expire()
        if expired:
            logger.info("took back %d dead leases", expired)
        if self._stalled is not None:
            await self._tell_stalled(self._stalled)

    async def _tell_stalled(self, tell: Callable[[Job, int], None]) -> None:
        """A lease lasts longer than a round, so whatever expired was seen running before."""
        before, self._running = self._running, await self._under_way()
        ended = [
            job for id, job in before.items()
            if id not in self._running or self._running[id].attempt != job.attempt
        ]  # fmt: skip
        for was, now in zip(ended, await self._queue.get([job.id for job in ended]), strict=True):
            if now is not None and (was.attempt, EXPIRED) in [
                (error.attempt, error.kind) for error in now.errors
            ]:
                tell(now, was.attempt)

    async def _under_way(self) -> dict[str, Job]:
        return {job.id: job async for job in self._queue.jobs(state="running")}

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
        """Says once of a worker that it is silent, and drops it when it has been for long."""
        now, workers = self._services.clock.now(), await self._queue.workers()
        silent = {one.id: one for one in workers if one.is_silent(now)}
        for id, worker in silent.items():
            if id not in self._silent:
                logger.warning(
                    "worker %s has not been seen for %.0f s; it has probably died",
                    id, now - worker.seen_at,
                )  # fmt: skip
            if now - worker.seen_at > self._options.forget_seconds:
                await self._queue.unregister(id)
        self._silent = set(silent)
