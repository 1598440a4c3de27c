"""Requests in the way of somebody's transaction that lasts: they wait for it, nobody else does.

A batch that collides is halved until the collider is alone. That one is then tried again by
itself, beside the batches of others and one collider at a time, so that however many there are
they take one of the store's turns at most. Who has waited long enough is told why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.engines.requests import Request
from penstock.ports.clock import Clock
from penstock.ports.records import Collided
from penstock.runtime.tasks import TaskSet

COLLIDED_SECONDS_MAX: Final = 15.0
"""How long a request is tried again, as while a server is away."""
RETRY_SECONDS: Final = 0.05
"""Between two tries, of whichever collider."""


class Colliders:
    def __init__(
        self, attend: Callable[[list[Request]], Awaitable[None]], tasks: TaskSet, clock: Clock
    ) -> None:
        self._attend = attend
        self._tasks = tasks
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._since: dict[Request, float] = {}

    async def sort_out(self, requests: list[Request], error: Collided) -> None:
        """Takes requests whose turn collided: each is answered, now or later."""
        if len(requests) > 1:
            middle = len(requests) // 2
            await self._attend(requests[:middle])
            await self._attend(requests[middle:])
            return
        [request] = requests
        since = self._since.setdefault(request, self._clock.elapsed())
        if self._clock.elapsed() - since > COLLIDED_SECONDS_MAX:
            del self._since[request]
            request.answer(error)
            return
        self._tasks.start("a collider", self._try_again(request, error))

    async def _try_again(self, request: Request, error: Collided) -> None:
        try:
            async with self._one_at_a_time:
                await self._clock.sleep(RETRY_SECONDS)
                if not request.future.done():
                    await self._attend([request])
        except asyncio.CancelledError:
            # Nothing of it is under way, or who attends has answered it already.
            request.answer(error)
            raise
        finally:
            if request.future.done():
                self._since.pop(request, None)
