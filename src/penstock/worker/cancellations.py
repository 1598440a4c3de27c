"""Hearing of cancellations without asking: a handler is stopped the moment its worker knows.

Listening is free, following others' commits is not. So a worker follows only while a handler takes
its time: one whose handlers are quick has nothing to stop, and loses no throughput over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.client.queue import Queue
from penstock.errors import JobCancelled
from penstock.kernel.events import Cancelled
from penstock.ports.clock import Clock
from penstock.worker.heart import Heart
from penstock.worker.room import Room

FOLLOW_AFTER_SECONDS: Final = 0.2
"""How long a handler has to run before its worker follows what others cancel."""


class Cancellations:
    """Finds runs only when something was cancelled, so that a job costs nothing extra.

    What slips through, a job cancelled while its claim was being answered, the next heartbeat
    finds.
    """

    def __init__(self, queue: Queue, clock: Clock, room: Room, heart: Heart) -> None:
        self._queue = queue
        self._clock = clock
        self._room = room
        self._heart = heart

    async def run(self) -> None:
        with self._queue.watch_cancelled(self.hear):
            while True:
                await self._room.busy()
                await self._clock.sleep(FOLLOW_AFTER_SECONDS)
                if self._takes_its_time():
                    await self._follow()

    async def _follow(self) -> None:
        with self._queue.following():
            while self._takes_its_time():
                await self._clock.sleep(FOLLOW_AFTER_SECONDS)

    def hear(self, cancelled: Sequence[Cancelled] | None) -> None:
        if cancelled is None:
            self._heart.beat_soon()
            return
        lives = {(event.id, event.life) for event in cancelled}
        for run in list(self._room.runs):
            if run.is_held and (run.job.id, run.job.life) in lives:
                run.lose(JobCancelled(run.job.id))

    def _takes_its_time(self) -> bool:
        limit = self._clock.elapsed() - FOLLOW_AFTER_SECONDS
        return any(run.started_at <= limit for run in self._room.runs)
