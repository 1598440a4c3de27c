"""Telling the queue how attempts ended: many at a time, and until it was heard.

While one batch is on its way the next gathers, so a busy worker settles hundreds of jobs with one
write. Everything told is idempotent by its lease, so what failed is simply told again; a lease that
ran out meanwhile is answered with `LeaseLost`, which ends it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.client.queue import Queue
from penstock.errors import BeingFilled, InvalidInput, OutcomeUnknown, PenstockError, StoreError
from penstock.kernel.job import Job
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.worker.endings import Ending, FailedAttempt, GivenBack, Stalled, Succeeded


class Settler:
    """`settled` is called with each ending once the queue knows it, or can't know it any more."""

    def __init__(
        self,
        queue: Queue,
        services: Services,
        complaints: Complaints,
        settled: Callable[[Ending], None],
    ) -> None:
        self._queue = queue
        self._services = services
        self._settled = settled
        self._complaints = complaints
        self._waiting: list[Ending] = []
        self._batches = 0
        """How many are on their way."""
        self._arrived = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, ending: Ending) -> None:
        self._waiting.append(ending)
        self._empty.clear()
        self._arrived.set()

    async def run(self) -> None:
        """May run several times at once, for as many batches on their way."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            endings, self._waiting = self._waiting, []
            if not endings:
                continue
            self._batches += 1
            await self._settle(endings)
            self._batches -= 1
            if not self._waiting and not self._batches:
                self._empty.set()

    @property
    def is_empty(self) -> bool:
        return self._empty.is_set()

    async def drained(self) -> None:
        await self._empty.wait()

    async def _settle(self, endings: list[Ending]) -> None:
        succeeded = [ending for ending in endings if isinstance(ending, Succeeded)]
        work = [self._acknowledge(succeeded)] if succeeded else []
        for ending in endings:
            if isinstance(ending, FailedAttempt):
                work.append(self._fail(ending))
            elif isinstance(ending, GivenBack):
                work.append(self._give_back(ending))
            elif isinstance(ending, Stalled):
                self._settled(ending)
        # One alone is sent at once, not a turn of the loop later, when the next claim has gone.
        await (work[0] if len(work) == 1 else asyncio.gather(*work))

    async def _acknowledge(self, endings: list[Succeeded]) -> None:
        jobs = [ending.job for ending in endings]
        results = [ending.result for ending in endings]
        outcomes = await self._until_heard("ack", lambda: self._queue.ack(jobs, results=results))
        for ending, outcome in zip(endings, outcomes, strict=True):
            if isinstance(outcome, InvalidInput):
                await self._fail(FailedAttempt(ending.job, outcome, "result", retry=False))
            else:
                self._tell(ending, outcome)

    async def _fail(self, ending: FailedAttempt) -> None:
        async def nack() -> PenstockError | None:
            return await _outcome(
                self._queue.nack(
                    [ending.job],
                    ending.message,
                    retry=ending.retry,
                    kind=ending.kind,
                    delay_seconds=ending.delay_seconds,
                )
            )

        self._tell(ending, await self._until_heard("nack", nack))

    async def _give_back(self, ending: GivenBack) -> None:
        async def release() -> PenstockError | None:
            jobs: list[Job] = [ending.job]
            if ending.until is None:
                return await _outcome(self._queue.release(jobs))
            return await _outcome(self._queue.snooze(jobs, ending.until))

        self._tell(ending, await self._until_heard("release", release))

    def _tell(self, ending: Ending, outcome: PenstockError | None) -> None:
        self._settled(ending if outcome is None else Stalled(ending.job, outcome))

    async def _until_heard(self, what: str, send: Callable[[], Any]) -> Any:
        backoff = self._services.backoff(0.1, 5.0)
        while True:
            try:
                answer = await send()
            except (StoreError, OutcomeUnknown, BeingFilled) as error:
                self._complaints.trouble(what, error)
                await self._services.clock.sleep(backoff.next_seconds())
            else:
                self._complaints.fine()
                return answer


async def _outcome(call: Any) -> PenstockError | None:
    """The error of a list of one, if it has one."""
    outcome = (await call)[0]
    return outcome if isinstance(outcome, PenstockError) else None
