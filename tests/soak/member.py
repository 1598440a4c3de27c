"""One process of a soak: enqueues, works or follows events, and tells each thing it was answered.

    python -m tests.soak.member ROLE URL NAME [POSITION]

It may be killed, frozen or cut off at any moment. What it was refused it asks for again, with the
same id; SIGTERM lets it finish what it is at.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from itertools import count
from typing import Any, Final

import penstock
from penstock import Queue, RetryPolicy
from penstock.errors import Gap, LeaseLost, OutcomeUnknown, PenstockError
from penstock.kernel.events import Claimed
from penstock.kernel.job import Job

LEASE_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.2
PAUSE_SECONDS: Final = 0.03
"""Between two enqueues: a soak is about faults, not about load."""
LONG_JOBS: Final = 0.03
REFUSED_JOBS: Final = 0.03
ATTEMPTS: Final = 1_000
AT_ONCE: Final = RetryPolicy(initial_seconds=0, max_seconds=0)


class Member:
    def __init__(self, url: str, name: str, position: str) -> None:
        self._url = url
        self._name = name
        self._position: str | int = int(position) if position.isdecimal() else position
        self._stopping = asyncio.Event()

    async def run(self, role: str) -> None:
        roles: dict[str, Callable[[Queue], Awaitable[None]]] = {
            "producer": self._produce,
            "worker": self._work,
            "follower": self._follow,
        }
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        while not self._stopping.is_set():
            try:
                async with penstock.open(self._url) as queue:
                    say(ready=role)
                    await roles[role](queue)
            except PenstockError as error:
                await self._trouble(error)

    async def _produce(self, queue: Queue) -> None:
        for n in count():
            if self._stopping.is_set():
                return
            id = f"{self._name}-{n}"
            say(asked=id)
            while not await self._enqueued(queue, id):
                if self._stopping.is_set():
                    return
            say(queued=id)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _enqueued(self, queue: Queue, id: str) -> bool:
        try:
            await queue.enqueue("work", id=id, retry=AT_ONCE, max_attempts=ATTEMPTS)
        except PenstockError as error:
            await self._trouble(error)
            return False
        return True

    async def _work(self, queue: Queue) -> None:
        while not self._stopping.is_set():
            try:
                jobs = await queue.claim(
                    3, worker=self._name, lease_seconds=LEASE_SECONDS, wait_seconds=1
                )
            except PenstockError as error:
                await self._trouble(error)
                continue
            for job in jobs:
                say(got=job.id, fence=fence_of(job))
            for job in jobs:
                await self._settle(queue, job)

    async def _settle(self, queue: Queue, job: Job) -> None:
        luck = random.random()
        try:
            if luck < LONG_JOBS:
                await asyncio.sleep(LEASE_SECONDS / 2)
                await queue.heartbeat(job, lease_seconds=LEASE_SECONDS)
            elif luck < LONG_JOBS + REFUSED_JOBS:
                await queue.nack(job, "not now")
                return
            await queue.ack(job, self._name)
        except LeaseLost:
            say(lost=job.id, fence=fence_of(job))
        except OutcomeUnknown:
            say(unsure=job.id, fence=fence_of(job))
        except PenstockError as error:
            await self._trouble(error)
        else:
            say(done=job.id, fence=fence_of(job))

    async def _follow(self, queue: Queue) -> None:
        following = asyncio.create_task(self._tell_events(queue))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((following, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        following.cancel()
        (outcome,) = await asyncio.gather(following, return_exceptions=True)
        if isinstance(outcome, Gap):
            say(gap=str(outcome))
            self._position = "beginning"
        elif isinstance(outcome, Exception):
            raise outcome

    async def _tell_events(self, queue: Queue) -> None:
        async with aclosing(queue.events(self._position)) as events:  # type: ignore[type-var]
            async for event in events:
                fence = event.lease.fence if isinstance(event, Claimed) else 0
                say(saw=[event.position, event.event, getattr(event, "id", ""), fence])
                self._position = event.position

    async def _trouble(self, error: PenstockError) -> None:
        say(trouble=type(error).__name__, why=str(error)[:200])
        await asyncio.sleep(AGAIN_SECONDS)


def fence_of(job: Job) -> int:
    assert job.lease is not None
    return job.lease.fence


def say(**told: Any) -> None:
    """In one write, which a kill either lets through or not."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main(role: str, url: str, name: str, position: str = "beginning") -> None:
    async def run() -> None:
        await Member(url, name, position).run(role)

    asyncio.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
