"""Handing claims over: what a caller does not take is given back.

A lease belongs to a caller from the moment when `claim` returns to it. Until then it is ours, and a
caller may leave at any await: while its request waits, while the batch is on its way to the store,
when the answer has arrived but was not yet taken, while a payload is fetched. So every claim is a
block here, and a block that ends with an exception gives back what the claim got or will get:

- a request that no batch has taken never happens;
- one that is being served is waited for, and its answer released;
- one of which nobody knows what became (`OutcomeUnknown`) is looked for by its operation, until it
  is found or its leases must have run out.

Nobody waits for any of this but `stop`, which lets go of the store only after it.

Whoever asks again with the same operation gets the same leases. So what is being given back is
withdrawn if the same claim comes again in time, and waited for if it is too late for that: nobody
is handed a lease that is released behind its back.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final

from msgspec.structs import replace

from penstock.engines.requests import ClaimRequest, Inbox
from penstock.errors import PASSING, OutcomeUnknown, PenstockError
from penstock.kernel.commands import AnyCommand, Claim, Release, Return
from penstock.kernel.job import Job
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.1
RETRY_SECONDS_MAX: Final = 5.0
"""How long a give-back that met trouble waits before it is tried again."""
LOOKS_MAX: Final = 5
"""How often leases of a claim whose outcome is unknown are looked for: a late write may land."""


class _GivingBack:
    __slots__ = ("is_sent", "request", "task")

    def __init__(self, request: ClaimRequest) -> None:
        self.request = request
        self.task: asyncio.Task[None] | None = None
        self.is_sent = False
        """From then on it can't be withdrawn."""


class Block(AbstractAsyncContextManager[list[Job]]):
    """A claim's answer; given back unless the block ends well.

    With `keep_unknown` a claim that ended as `OutcomeUnknown` is left for its caller, who chose the
    operation and asks again with it.
    """

    # Not a generator of `contextlib`: every claim of one job would pay 2 µs for it.
    __slots__ = ("_command", "_handover", "_keep_unknown", "_request")

    def __init__(self, handover: Handover, command: Claim, *, keep_unknown: bool) -> None:
        self._handover = handover
        self._command = command
        self._keep_unknown = keep_unknown
        self._request: ClaimRequest | None = None

    async def __aenter__(self) -> list[Job]:
        handover = self._handover
        handover.blocks += 1
        try:
            if self._keep_unknown:
                await handover.wait_for_namesake(self._command)
            if handover.is_giving_back:
                await handover.withdraw(self._command, keep_unknown=self._keep_unknown)
            self._request = handover.inbox.add_claim(self._command)
            if self._keep_unknown:
                handover.note_name(self._request)
            jobs: list[Job] = await self._request.future
        except BaseException as error:
            self._end(error)
            raise
        return jobs

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        request, handover = self._request, self._handover
        # After a `GeneratorExit` nobody is left to do anything: the event loop has ended around it.
        if error is not None and request is not None and not isinstance(error, GeneratorExit):
            handover.note_left(request)
            if not (self._keep_unknown and isinstance(error, OutcomeUnknown)):
                handover.give_back(request)
        handover.note_end()


class Handover:
    def __init__(self, inbox: Inbox, services: Services, outcome_seconds_max: float) -> None:
        self.inbox = inbox
        self.blocks = 0
        """How many claims have neither been taken nor left."""
        self._services = services
        self._outcome_seconds_max = outcome_seconds_max
        self._tasks = TaskSet("handover")
        self._under_way: dict[tuple[str, str], ClaimRequest] = {}
        """Claims whose callers have left, until they were served; by (tenant, operation)."""
        self._named: dict[tuple[str, str], ClaimRequest] = {}
        """Claims whose callers chose the operation, until they were served."""
        self._giving_back: dict[tuple[str, str], _GivingBack] = {}
        self._changed = asyncio.Event()

    async def finish(self) -> None:
        """Until every claim was taken or given back."""
        while self.blocks or self._giving_back:
            self._changed.clear()
            await self._changed.wait()

    async def stop(self) -> None:
        await self._tasks.stop()

    @property
    def is_giving_back(self) -> bool:
        """Whether there is anything that a claim might have to be withdrawn from."""
        return bool(self._giving_back or self._under_way)

    def note_end(self) -> None:
        self.blocks -= 1
        self._changed.set()

    def note_left(self, request: ClaimRequest) -> None:
        if request.outcome is None:
            key = request.claim.tenant, request.claim.operation
            self._under_way[key] = request
            request.ended.add_done_callback(lambda _: self._under_way.pop(key, None))

    def note_name(self, request: ClaimRequest) -> None:
        key = request.claim.tenant, request.claim.operation
        self._named[key] = request
        request.ended.add_done_callback(lambda _: self._named.pop(key, None))

    async def wait_for_namesake(self, command: Claim) -> None:
        """Of two at once with one operation the second is served when it can find the first's."""
        until = self._services.clock.elapsed() + self._outcome_seconds_max
        while (first := self._named.get((command.tenant, command.operation))) is not None:
            rest = until - self._services.clock.elapsed()
            await asyncio.wait([first.ended], timeout=max(0.0, rest))
            if first.outcome is None:
                raise OutcomeUnknown(first.describe())

    async def withdraw(self, command: Claim, *, keep_unknown: bool) -> None:
        """What the same claim got before is not given back any more, or was."""
        key = command.tenant, command.operation
        earlier = self._giving_back.get(key)
        request = self._under_way.get(key) if earlier is None else earlier.request
        if request is None:
            return
        try:
            if earlier is not None and earlier.task is not None:
                if not earlier.is_sent:
                    earlier.task.cancel()
                await asyncio.wait([earlier.task])
            # Two at once could both find that there was none before.
            await asyncio.wait([request.ended], timeout=self._outcome_seconds_max)
            if request.outcome is None:
                raise OutcomeUnknown(request.describe())
        except GeneratorExit:
            raise
        except BaseException as error:
            # Whoever asked again has left, too.
            if not (keep_unknown and isinstance(error, OutcomeUnknown)):
                self.give_back(request)
            raise

    def give_back(self, request: ClaimRequest) -> None:
        if request.outcome is not None and not _may_have_leases(request.outcome):
            return
        key = request.claim.tenant, request.claim.operation
        giving_back = _GivingBack(request)
        self._giving_back[key] = giving_back
        giving_back.task = self._tasks.start("give back", self._return(giving_back))
        giving_back.task.add_done_callback(lambda _: self._forget(key, giving_back))

    def _forget(self, key: tuple[str, str], giving_back: _GivingBack) -> None:
        if self._giving_back.get(key) is giving_back:
            del self._giving_back[key]
        self._changed.set()

    async def _return(self, giving_back: _GivingBack) -> None:
        request = giving_back.request
        await asyncio.shield(request.ended)
        claim, answer = request.claim, request.outcome
        assert answer is not None
        until = self._services.clock.elapsed() + claim.lease_seconds
        if _is_unknown(answer):
            returns = await self._look_for(claim, until)
        else:
            returns = [] if isinstance(answer, BaseException) else _returns(answer)
        if returns:
            giving_back.is_sent = True
            await self._until_heard(Release(claim.tenant, returns), until)

    async def _look_for(self, claim: Claim, until: float) -> list[Return]:
        """What a claim got of which nobody knows what became."""
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        for _ in range(LOOKS_MAX):
            # Asked again for none: whatever it got before, it gets, and nothing more.
            jobs: list[Job] = await self._until_heard(replace(claim, count=0), until) or []
            if jobs or self.inbox.is_closed:
                return _returns(jobs)
            await self._services.clock.sleep(backoff.next_seconds())
        return []

    async def _until_heard(self, command: AnyCommand, until: float) -> list[Job] | None:
        """Longer than the leases last there is nothing to give back."""
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            try:
                answer: list[Job] = await self.inbox.add_last(command)
                return answer
            except PASSING as error:
                if self._services.clock.elapsed() >= until:
                    logger.warning("leases that nobody took run out: %s", error)
                    return None
            except PenstockError as error:
                logger.warning("leases that nobody took can't be given back: %s", error)
                return None
            await self._services.clock.sleep(backoff.next_seconds())


def _returns(jobs: list[Job]) -> list[Return]:
    return [Return(job.id, job.lease) for job in jobs if job.lease is not None]


def _is_unknown(answer: object) -> bool:
    """Errors of ours say what they know; of others' nobody can tell what had happened before."""
    return isinstance(answer, OutcomeUnknown) or (
        isinstance(answer, BaseException) and not isinstance(answer, PenstockError)
    )


def _may_have_leases(answer: object) -> bool:
    """Whether what became of a request leaves something to give back."""
    return _is_unknown(answer) if isinstance(answer, BaseException) else bool(answer)
