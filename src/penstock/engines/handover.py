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

Several callers may ask with one operation, at once or one after the other. Who leaves then gives
back neither what another caller has been handed nor what another still waits for: the last one that
leaves does, for all of them. Of callers in other processes nothing is known here.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, TypeAlias

from msgspec.structs import replace

from penstock.engines.requests import ClaimRequest, Inbox
from penstock.errors import PASSING, OutcomeUnknown, PenstockError
from penstock.kernel.commands import AnyCommand, Claim, Release, Return
from penstock.kernel.job import Job, Lease
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.1
RETRY_SECONDS_MAX: Final = 5.0
"""How long a give-back that met trouble waits before it is tried again."""
HANDED_OVER_KEPT_MAX: Final = 10_000
"""How many leases of named claims are remembered as somebody's."""
LOOKS_MAX: Final = 5
"""How often leases of a claim whose outcome is unknown are looked for: a late write may land."""


Key: TypeAlias = tuple[str, str]
"""Of a claim: its tenant and operation."""


class _Namesakes:
    """The callers that ask with one operation now."""

    __slots__ = ("here", "left")

    def __init__(self) -> None:
        self.here = 0
        self.left: list[ClaimRequest] = []
        """What those asked for who are gone: given back when nobody is here who may want it."""


class _GivingBack:
    __slots__ = ("is_sent", "requests", "task")

    def __init__(self, requests: list[ClaimRequest]) -> None:
        self.requests = requests
        self.task: asyncio.Task[None] | None = None
        self.is_sent = False
        """From then on it can't be withdrawn."""


class Block(AbstractAsyncContextManager[list[Job]]):
    """A claim's answer; given back unless the block ends well.

    With `keep_unknown` a claim that ended as `OutcomeUnknown` is left for its caller, who chose the
    operation and asks again with it.
    """

    # Not a generator of `contextlib`: every claim of one job would pay 2 µs for it.
    __slots__ = ("_command", "_handover", "_has_joined", "_keep_unknown", "_request")

    def __init__(self, handover: Handover, command: Claim, *, keep_unknown: bool) -> None:
        self._handover = handover
        self._command = command
        self._keep_unknown = keep_unknown
        self._has_joined = False
        self._request: ClaimRequest | None = None

    async def __aenter__(self) -> list[Job]:
        handover = self._handover
        handover.blocks += 1
        try:
            # Others' operations are fresh ones, so nobody asks with the same.
            if self._keep_unknown or handover.is_giving_back:
                handover.join(self._command)
                self._has_joined = True
            if self._keep_unknown:
                await handover.wait_for_namesake(self._command)
            if self._has_joined:
                await handover.withdraw(self._command)
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
        is_too_late = isinstance(error, GeneratorExit)
        asks_again = self._keep_unknown and isinstance(error, OutcomeUnknown)
        left: list[ClaimRequest] = []
        if request is not None and error is None and self._keep_unknown:
            handover.note_handed_over(request)
        elif request is not None and error is not None and not is_too_late:
            handover.note_left(request)
            left = [] if asks_again else [request]
        if self._has_joined:
            handover.part(self._command, left, gives_back=not (asks_again or is_too_late))
        elif left:
            handover.give_back(left)
        handover.note_end()


class Handover:
    def __init__(self, inbox: Inbox, services: Services, outcome_seconds_max: float) -> None:
        self.inbox = inbox
        self.blocks = 0
        """How many claims have neither been taken nor left."""
        self._services = services
        self._outcome_seconds_max = outcome_seconds_max
        self._tasks = TaskSet("handover")
        self._under_way: dict[Key, ClaimRequest] = {}
        """Claims whose callers have left, until they were served."""
        self._named: dict[Key, ClaimRequest] = {}
        """Claims whose callers chose the operation, until they were served."""
        self._namesakes: dict[Key, _Namesakes] = {}
        self._handed_over: dict[Key, frozenset[Lease]] = {}
        """What callers who chose the operation have got, as far back as is remembered."""
        self._handed_over_count = 0
        self._giving_back: dict[Key, _GivingBack] = {}
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
            key = _key(request.claim)
            self._under_way[key] = request
            request.ended.add_done_callback(lambda _: self._under_way.pop(key, None))

    def note_name(self, request: ClaimRequest) -> None:
        key = _key(request.claim)
        self._named[key] = request
        request.ended.add_done_callback(lambda _: self._named.pop(key, None))

    def note_handed_over(self, request: ClaimRequest) -> None:
        """Its caller has got what it asked for: that is given back by nobody else."""
        key, jobs = _key(request.claim), request.outcome
        assert isinstance(jobs, list), "a claim that ended well has an answer"
        self._forget_handed_over(key)
        if jobs:
            self._handed_over[key] = frozenset(one.lease for one in _returns(jobs))
            self._handed_over_count += len(self._handed_over[key])
        while self._handed_over_count > HANDED_OVER_KEPT_MAX and len(self._handed_over) > 1:
            self._forget_handed_over(next(iter(self._handed_over)))

    def _forget_handed_over(self, key: Key) -> None:
        self._handed_over_count -= len(self._handed_over.pop(key, ()))

    def join(self, command: Claim) -> None:
        """One more caller asks with this operation."""
        self._namesakes.setdefault(_key(command), _Namesakes()).here += 1

    def part(self, command: Claim, requests: list[ClaimRequest], *, gives_back: bool) -> None:
        """One less does, and leaves these requests. The last one gives back what all have left.

        Not where it will ask again: by its operation it finds all of it.
        """
        key = _key(command)
        namesakes = self._namesakes[key]
        namesakes.here -= 1
        namesakes.left += requests
        if not namesakes.here:
            del self._namesakes[key]
            if gives_back:
                self.give_back(namesakes.left)

    async def wait_for_namesake(self, command: Claim) -> None:
        """Of two at once with one operation the second is served when it can find the first's."""
        until = self._services.clock.elapsed() + self._outcome_seconds_max
        while (first := self._named.get(_key(command))) is not None:
            rest = until - self._services.clock.elapsed()
            await asyncio.wait([first.ended], timeout=max(0.0, rest))
            if first.outcome is None:
                raise OutcomeUnknown(first.describe())

    async def withdraw(self, command: Claim) -> None:
        """What the same claim got before is not given back any more, or was."""
        key = _key(command)
        earlier = self._giving_back.get(key)
        if earlier is not None and earlier.is_sent:
            assert earlier.task is not None, "it is the one that sends"
            await asyncio.wait([earlier.task])
            return
        requests = [] if earlier is None else earlier.requests
        if not requests and key in self._under_way:
            requests = [self._under_way[key]]
        # From here on it is ours to give back, wherever this is left.
        left = self._namesakes[key].left
        left += [request for request in requests if request not in left]
        if earlier is not None and earlier.task is not None:
            earlier.task.cancel()
            await asyncio.wait([earlier.task])
        for request in requests:
            # Two at once could both find that there was none before.
            await asyncio.wait([request.ended], timeout=self._outcome_seconds_max)
            if request.outcome is None:
                raise OutcomeUnknown(request.describe())

    def give_back(self, requests: list[ClaimRequest]) -> None:
        """What became of claims of one operation, whenever that is known."""
        requests = [one for one in requests if _may_have_leases(one.outcome)]
        if not requests:
            return
        key = _key(requests[0].claim)
        giving_back = _GivingBack(requests)
        self._giving_back[key] = giving_back
        giving_back.task = self._tasks.start("give back", self._return(giving_back))
        giving_back.task.add_done_callback(lambda _: self._forget(key, giving_back))

    def _forget(self, key: Key, giving_back: _GivingBack) -> None:
        if self._giving_back.get(key) is giving_back:
            del self._giving_back[key]
        self._changed.set()

    async def _return(self, giving_back: _GivingBack) -> None:
        requests = giving_back.requests
        for request in requests:
            await asyncio.shield(request.ended)
        claim = requests[0].claim
        until = self._services.clock.elapsed() + claim.lease_seconds
        returns: dict[Lease, Return] = {}
        for request in requests:
            if isinstance(request.outcome, list):
                returns |= {one.lease: one for one in _returns(request.outcome)}
        if any(_is_unknown(request.outcome) for request in requests):
            returns |= {one.lease: one for one in await self._look_for(claim, until)}
        handed_over = self._handed_over.get(_key(claim), frozenset())
        left = [one for lease, one in returns.items() if lease not in handed_over]
        if left:
            giving_back.is_sent = True
            await self._until_heard(Release(claim.tenant, left), until)

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


def _key(claim: Claim) -> Key:
    return claim.tenant, claim.operation


def _returns(jobs: list[Job]) -> list[Return]:
    return [Return(job.id, job.lease) for job in jobs if job.lease is not None]


def _is_unknown(answer: object) -> bool:
    """Errors of ours say what they know; of others' nobody can tell what had happened before."""
    return isinstance(answer, OutcomeUnknown) or (
        isinstance(answer, BaseException) and not isinstance(answer, PenstockError)
    )


def _may_have_leases(answer: object) -> bool:
    """Whether what became of a request leaves something to give back; None: that is to come."""
    if answer is None:
        return True
    return _is_unknown(answer) if isinstance(answer, BaseException) else bool(answer)
