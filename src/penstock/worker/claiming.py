"""Claiming: as many jobs at once as there is room for, and none before there is.

Where commits are a server's work, room is filled in waves: while one is on its way the jobs of the
other run. Only one claims while nothing piles up, so that an idle worker asks no more often for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from penstock.client.queue import Queue
from penstock.errors import PASSING
from penstock.kernel.job import Job
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet, first_of
from penstock.worker.endings import GivenBack
from penstock.worker.options import WorkerOptions
from penstock.worker.room import Room
from penstock.worker.settling import Settler

WAIT_SECONDS: Final = 5.0
LEASE_LEFT_MIN: Final = 1 / 3
"""Leases that arrive with less of them left are given back unused."""


class Claiming:
    """Hands each job to `start`, with the time from before it was asked for.

    Ends when told to stop, in a burst when nothing is due any more, and after `jobs_max` jobs.
    """

    def __init__(
        self,
        queue: Queue,
        options: WorkerOptions,
        types: tuple[str, ...] | None,
        types_without_process: tuple[str, ...] | None,
        services: Services,
        complaints: Complaints,
        room: Room,
        settler: Settler,
        start: Callable[[Job, float], None],
    ) -> None:
        self._queue = queue
        self._options = options
        self._services = services
        self._complaints = complaints
        self._room = room
        self._settler = settler
        self._start = start
        self._types = types
        self._types_without_process = types_without_process
        self._waves = queue.capabilities.batches_at_once
        self._backlog = asyncio.Event()
        """Set while claims get all that they ask for."""
        self._claimed = 0

    @property
    def helpers(self) -> int:
        """How many are to `help` the one that runs."""
        return self._waves - 1

    async def run(self, stopping: asyncio.Event) -> None:
        backoff = self._services.backoff(0.1, 5.0)
        while not stopping.is_set() and self._left > 0:
            was_quiet = self._room.is_idle and self._settler.is_empty
            try:
                if not any(self._wanted()):
                    await self._room.changed()
                elif not await self._claim():
                    if self._options.burst and was_quiet:
                        return
                    await self._wait()
            except PASSING as error:
                self._complaints.trouble("a claim", error)
                await self._services.clock.sleep(backoff.next_seconds())
            else:
                self._complaints.fine()
                backoff.reset()

    async def help(self) -> None:
        """Claims too while there is a backlog, which there is none of where claims fail."""
        while True:
            await self._backlog.wait()
            try:
                if not any(self._wanted()):
                    await self._room.changed()
                else:
                    await self._claim()
            except PASSING as error:
                self._complaints.trouble("a claim", error)
                self._backlog.clear()

    @property
    def _left(self) -> float:
        jobs_max = self._options.jobs_max
        return float("inf") if jobs_max is None else jobs_max - self._claimed

    def _wanted(self) -> tuple[int, int]:
        """How many can start of all types served, and more of those that need no process."""
        wave = -(-self._room.limit // self._waves)
        free = int(min(self._room.free, wave, self._left - self._room.kept))
        if self._types_without_process is None:
            return free, 0
        any_type = min(free, self._room.free_processes)
        return any_type, free - any_type if self._types_without_process else 0

    async def _claim(self) -> bool:
        """Claims all that there is room for and starts what it gets. False: nothing was due."""
        clock, lease_seconds = self._services.clock, self._options.lease_seconds
        sent_at = clock.elapsed()
        any_type, more = self._wanted()
        claims = [
            self._queue.claim(
                count,
                queues=self._options.queues,
                types=types,
                worker=self._options.name,
                lease_seconds=lease_seconds,
            )
            for count, types in ((any_type, self._types), (more, self._types_without_process))
            if count > 0
        ]
        with (
            self._room.keep(any_type + more, processes=any_type),
            self._complaints.expect_answer("a claim"),
        ):
            jobs, trouble = await self._all_of(claims)
        if len(jobs) < any_type + more:
            self._backlog.clear()
        else:
            self._backlog.set()
        if clock.elapsed() - sent_at > (1 - LEASE_LEFT_MIN) * lease_seconds:
            self._give_back(jobs)
        else:
            self._claimed += len(jobs)
            for job in jobs:
                self._start(job, sent_at)
        if trouble is not None:
            raise trouble
        return bool(jobs)

    async def _all_of(
        self, claims: Sequence[Coroutine[Any, Any, list[Job]]]
    ) -> tuple[list[Job], BaseException | None]:
        """What they got, and why one of them got nothing: that does not take the others' away."""
        if len(claims) == 1:
            return await claims[0], None
        # Sent together, two claims share a commit.
        together = TaskSet("claims")
        tasks = [together.start("claim", claim) for claim in claims]
        try:
            answers = await asyncio.gather(*tasks, return_exceptions=True)
        except asyncio.CancelledError:
            # One that was cancelled has given back what it got; one that had returned has not.
            for task in tasks:
                if not task.cancelled() and task.exception() is None:
                    self._give_back(task.result())
            raise
        jobs = [job for one in answers if not isinstance(one, BaseException) for job in one]
        return jobs, next((one for one in answers if isinstance(one, BaseException)), None)

    def _give_back(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._settler.add(GivenBack(job))

    async def _wait(self) -> None:
        """Until there may be something to claim; in a burst, at most until all is done."""
        any_type, _ = self._wanted()
        types = self._types if any_type else self._types_without_process
        queues = self._options.queues
        waits = [self._queue.wait_for_work(queues, types, timeout_seconds=WAIT_SECONDS)]
        if not any_type:
            waits.append(self._room.changed())
        if self._options.burst:
            waits.append(self._quiet())
        await first_of(*waits)

    async def _quiet(self) -> None:
        await self._room.idle()
        await self._settler.drained()
