"""Telling the queue how attempts ended: many at a time, and until it was heard.

While one batch is on its way the next gathers, so a busy worker settles hundreds of jobs with one
write. Everything told is idempotent by its lease, so what failed is simply told again; a lease that
ran out meanwhile is answered with `LeaseLost`, which ends it too.

Until it was heard the attempt's lease is held: the heart beats for what is `unsettled`, too. So an
outage that is shorter than what is left of a lease has nothing done again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from penstock.client.queue import Queue
from penstock.errors import PASSING, InvalidInput, PenstockError, StoreRefused
from penstock.kernel.job import Job
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.worker.endings import Ending, FailedAttempt, GivenBack, Stalled, Succeeded
from penstock.worker.running import Run
from penstock.worker.saying import say_ended, says_endings

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.1
RETRY_SECONDS_MAX: Final = 1.0
"""Less than a clock may be off by, so what comes back in time is told in time."""


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
        self._when_settled = settled
        self._complaints = complaints
        self._unsettled: dict[int, Run] = {}
        """Attempts that have ended, by the identity of their jobs."""
        self._waiting: list[Ending] = []
        self._is_told = says_endings()
        """Whether the log takes a line for each ending; asked once a batch."""
        self._seconds: dict[int, float] = {}
        """How long attempts took, by the identity of their jobs, if that is to be told."""
        self._batches = 0
        """How many are on their way."""
        self._arrived = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, ending: Ending, run: Run | None = None) -> None:
        """With the run whose lease is to be held until it is settled, if it is still held."""
        if run is not None and run.is_held:
            self._unsettled[id(ending.job)] = run
        if self._is_told and run is not None:
            took = self._services.clock.elapsed() - run.started_at
            self._seconds[id(ending.job)] = took
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
            self._is_told = says_endings()
            try:
                await self._settle(endings)
            finally:
                self._batches -= 1
            if not self._waiting and not self._batches:
                self._empty.set()

    @property
    def unsettled(self) -> Collection[Run]:
        return self._unsettled.values()

    @property
    def is_empty(self) -> bool:
        return self._empty.is_set()

    async def drained(self) -> None:
        await self._empty.wait()

    async def _settle(self, endings: list[Ending]) -> None:
        succeeded: dict[str | None, list[Succeeded]] = {}
        for ending in endings:
            if isinstance(ending, Succeeded):
                succeeded.setdefault(ending.codec, []).append(ending)
        work = [self._acknowledge(some, codec) for codec, some in succeeded.items()]
        for ending in endings:
            if isinstance(ending, FailedAttempt):
                work.append(self._alone(ending, self._fail(ending)))
            elif isinstance(ending, GivenBack):
                work.append(self._alone(ending, self._give_back(ending)))
            elif isinstance(ending, Stalled):
                self._settled(ending)
        # One alone is sent at once, not a turn of the loop later, when the next claim has gone.
        await (work[0] if len(work) == 1 else asyncio.gather(*work))

    async def _acknowledge(self, endings: list[Succeeded], codec: str | None) -> None:
        jobs = [ending.job for ending in endings]
        results = [ending.result for ending in endings]
        try:
            outcomes = await self._until_heard(
                "ack", lambda: self._queue.ack(jobs, results=results, codec=codec)
            )
        except PenstockError:
            raise
        except Exception as error:
            logger.exception("an ack failed in a way that it should not")
            if len(endings) > 1:
                # It is about one of them; the others complete.
                for ending in endings:
                    await self._acknowledge([ending], codec)
                return
            outcomes = [InvalidInput(f"the result could not be stored: {error!r}")]
        for ending, outcome in zip(endings, outcomes, strict=True):
            if isinstance(outcome, InvalidInput | StoreRefused):
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
                    traceback=ending.traceback,
                )
            )

        self._tell(ending, await self._until_heard("nack", nack))

    async def _alone(self, ending: FailedAttempt | GivenBack, telling: Awaitable[None]) -> None:
        """What can't be said of one attempt is that attempt's problem."""
        try:
            await telling
        except InvalidInput as error:
            # What its handler said: that it made no sense is why the attempt failed.
            await self._fail(FailedAttempt(ending.job, error, "ending"))
        except PenstockError:
            raise
        except Exception as error:
            logger.exception("the end of job %s could not be told; it runs again", ending.job.id)
            self._settled(Stalled(ending.job, InvalidInput(f"it could not be told: {error!r}")))

    async def _give_back(self, ending: GivenBack) -> None:
        async def release() -> PenstockError | None:
            jobs: list[Job] = [ending.job]
            if ending.until is None:
                return await _outcome(self._queue.release(jobs))
            return await _outcome(self._queue.snooze(jobs, ending.until))

        self._tell(ending, await self._until_heard("release", release))

    def _settled(self, ending: Ending) -> None:
        self._unsettled.pop(id(ending.job), None)
        if self._seconds and (seconds := self._seconds.pop(id(ending.job), None)) is not None:
            say_ended(ending, seconds)
        self._when_settled(ending)

    def _tell(self, ending: Ending, outcome: PenstockError | None) -> None:
        self._settled(ending if outcome is None else Stalled(ending.job, outcome))

    async def _until_heard(self, what: str, send: Callable[[], Any]) -> Any:
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            try:
                with self._complaints.expect_answer(what):
                    answer = await send()
            except PASSING as error:
                self._complaints.trouble(what, error)
                await self._services.clock.sleep(backoff.next_seconds())
            else:
                self._complaints.fine()
                return answer


async def _outcome(call: Any) -> PenstockError | None:
    """The error of a list of one, if it has one."""
    outcome = (await call)[0]
    return outcome if isinstance(outcome, PenstockError) else None
