"""What callers ask for, waiting to be taken as the next batch."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock.errors import BatchTooLarge, PenstockError, QueueClosed
from penstock.kernel.batch import Batch
from penstock.kernel.commands import (
    Ack,
    Adopt,
    AnyCommand,
    Archive,
    Cancel,
    CarryKeys,
    Claim,
    Enqueue,
    Heartbeat,
    Nack,
    PublishImport,
    Release,
    Replay,
    StageImport,
    Unarchive,
)
from penstock.kernel.events import EVENTS_PER_COMMIT
from penstock.kernel.job import Job
from penstock.kernel.manifest import NeedsChunk
from penstock.kernel.state import QueueState
from penstock.ports.backend import CALL_BYTES_MAX, CALL_ITEMS_MAX
from penstock.wire.commit import Unencodable

logger = logging.getLogger(__name__)

BATCH_ITEMS_MAX: Final = 20_000
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""A batch stops growing at either; one request that is larger by itself goes alone."""
_JOB_BYTES: Final = 256
"""About what an event has besides its values."""


class Query:
    """A read: looks at the state as of a time, between two commands."""

    __slots__ = ("look",)

    def __init__(self, look: Callable[[QueueState, float], Any]) -> None:
        self.look = look


class Glance(Query):
    """A read for which what this process knows already is new enough."""

    __slots__ = ()


Work: TypeAlias = AnyCommand | Query


class Spoiled(Exception):
    """A request of a batch failed in a way that nobody foresaw. The others go on without it."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(place, error)
        self.place = place
        self.error = error


class Request:
    __slots__ = ("future", "items", "size_bytes", "work")

    def __init__(self, work: Work, future: asyncio.Future[Any]) -> None:
        """Weighed here, so that what is too large for any commit is refused before it is one's."""
        self.work = work
        self.items, self.size_bytes = weighed(work)
        self.future = future
        """What its caller waits for; who leaves cancels it, who waits too long is told so."""

    def answer(self, answer: Any) -> None:
        """What became of it, an error included; only the first time counts."""
        future = self.future
        if future.done():
            return
        if not isinstance(answer, BaseException):
            future.set_result(answer)
        elif isinstance(answer, StopIteration):
            # It can't leave through a future: whoever awaits that would wait for ever.
            future.set_exception(RuntimeError(f"the command raised {answer!r}"))
        else:
            future.set_exception(answer)

    def work_again(self) -> Work:
        """What there is to decide after an attempt that was lost.

        A caller who was told meanwhile that the outcome is unknown may have called again, by the
        ids that were made for this call: from then on they are not new any more.
        """
        work = self.work
        if not isinstance(work, Enqueue) or not self.future.done():
            return work
        jobs = [
            new if new.operation is not None else replace(new, operation=new.id)
            for new in work.jobs
        ]
        return replace(work, jobs=jobs)

    def describe(self) -> str:
        """For an error: what was asked."""
        return "a read" if isinstance(self.work, Query) else verb_of(self.work)


class ClaimRequest(Request):
    """One whose end can be waited for after its caller has left."""

    __slots__ = ("_ended", "claim", "outcome")

    def __init__(self, claim: Claim, future: asyncio.Future[Any]) -> None:
        Request.__init__(self, claim, future)
        self.claim = claim
        self.outcome: list[Job] | BaseException | None = None
        """What became of it, whoever was there to hear it; None: that is to come."""
        self._ended: asyncio.Future[None] | None = None

    def answer(self, answer: Any) -> None:
        if self.outcome is None:
            self.outcome = answer
            if self._ended is not None:
                self._ended.set_result(None)
        Request.answer(self, answer)

    @property
    def ended(self) -> asyncio.Future[None]:
        """When there is an outcome. Made when it is asked for: most claims are taken at once."""
        if self._ended is None:
            self._ended = self.future.get_loop().create_future()
            if self.outcome is not None:
                self._ended.set_result(None)
        return self._ended


def is_read(requests: Iterable[Request]) -> bool:
    """Whether all of them only look."""
    return all(isinstance(request.work, Query) for request in requests)


def weighed(work: Work) -> tuple[int, int]:
    """The weight of what is not too large for a commit."""
    items, size_bytes = weight(work)
    if items > CALL_ITEMS_MAX or size_bytes > CALL_BYTES_MAX:
        call = type(work).__name__.lower()
        raise BatchTooLarge(call, items, size_bytes, CALL_ITEMS_MAX, CALL_BYTES_MAX)
    return items, size_bytes


def weight(work: Work) -> tuple[int, int]:
    """How many items it has, and about how many bytes they bring into the commit."""
    match work:
        case Enqueue():
            size_bytes = _JOB_BYTES * len(work.jobs)
            for new in work.jobs:
                size_bytes += len(new.payload)
                if new.meta is not None:
                    size_bytes += len(msgspec.json.encode(new.meta))
            return len(work.jobs), size_bytes
        case Claim():
            return work.count, _JOB_BYTES * work.count
        case Ack():
            size_bytes = _JOB_BYTES * len(work.items)
            for item in work.items:
                size_bytes += len(item.result)
            return len(work.items), size_bytes
        case Nack():
            # What it says of a failure, its traceback above all, is in no job's weight.
            told = [len(item.error) + len(item.traceback or "") for item in work.items]
            return len(work.items), sum(told) + _JOB_BYTES * len(work.items)
        case Heartbeat() | Release():
            return len(work.items), _JOB_BYTES * len(work.items)
        case Cancel() | Replay() | Archive() | Unarchive():
            return len(work.ids), _JOB_BYTES * len(work.ids)
        case Adopt():
            values = sum([len(job.payload) + len(job.result) for job in work.jobs])
            return len(work.jobs), values + _JOB_BYTES * len(work.jobs)
        case CarryKeys():
            return len(work.keys), _JOB_BYTES * len(work.keys)
        case PublishImport() | StageImport():
            return len(work.objects), len(msgspec.json.encode(work.objects))
        case _:
            return 1, 0


def decide_all(
    batch: Batch,
    state: QueueState,
    works: Sequence[Work],
    at: float,
) -> tuple[list[Any], list[int]]:
    """The answers, and how many events there were after each.

    Raises `Spoiled` if one breaks: what it has done by then has to be taken back with the rest.
    """
    answers: list[Any] = []
    ends: list[int] = []
    for place, work in enumerate(works):
        try:
            answers.append(decided(batch, state, work, at))
        except NeedsChunk:
            raise
        except Exception as error:
            raise Spoiled(place, error) from error
        end = len(batch.events)
        if end > EVENTS_PER_COMMIT:
            raise Spoiled(place, _too_many(work, end))
        ends.append(end)
    return answers, ends


def spoiler(unencodable: Unencodable, ends: Sequence[int]) -> Spoiled:
    """Whose event it is that can't be written; the error itself if it is nobody's of this batch."""
    place = bisect_right(ends, unencodable.index)
    if place == len(ends):
        raise unencodable.error
    return Spoiled(place, unencodable.error)


def log_spoiled(found: Spoiled) -> None:
    """Its caller is told; so is whoever looks after this process."""
    logger.error("a command failed in a way that it should not", exc_info=found.error)


def _too_many(work: Work, events: int) -> BatchTooLarge:
    call = type(work).__name__.lower()
    return BatchTooLarge(call, events, 0, EVENTS_PER_COMMIT, CALL_BYTES_MAX)


def decided(batch: Batch, state: QueueState, work: Work, at: float) -> Any:
    """The answer to one request, or why it was refused: that concerns its caller alone."""
    try:
        return work.look(state, at) if isinstance(work, Query) else batch.run(work)
    except PenstockError as error:
        return error


def verb_of(command: AnyCommand) -> str:
    tag = command.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


class Inbox:
    def __init__(self, *, one_at_a_time: bool) -> None:
        self._waiting: deque[Request] = deque()
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._one_at_a_time = one_at_a_time
        self.is_closed = False
        self._is_finished = False

    def open(self) -> None:
        """From now on callers may come, in this event loop."""
        self._loop = asyncio.get_running_loop()

    def add(self, work: Any) -> asyncio.Future[Any]:
        if self.is_closed:
            raise QueueClosed
        return self.add_last(work)

    def add_claim(self, claim: Claim) -> ClaimRequest:
        if self.is_closed:
            raise QueueClosed
        assert self._loop is not None, "nobody comes before it is open"
        request = ClaimRequest(claim, self._loop.create_future())
        self._append(request)
        return request

    def add_last(self, work: Any) -> asyncio.Future[Any]:
        """Also after closing: for what has to be done before the end."""
        if self._is_finished:
            raise QueueClosed
        assert self._loop is not None, "nobody comes before it is open"
        future: asyncio.Future[Any] = self._loop.create_future()
        self._append(Request(work, future))
        return future

    def _append(self, request: Request) -> None:
        self._waiting.append(request)
        self._arrived.set()

    async def take(self) -> list[Request] | None:
        """The next batch, in order of arrival; None once finished and empty."""
        while True:
            while not self._waiting:
                if self._is_finished:
                    return None
                self._arrived.clear()
                await self._arrived.wait()
            if batch := self._take_many():
                return batch

    def _take_many(self) -> list[Request]:
        batch: list[Request] = []
        items = size_bytes = 0
        while self._waiting and not (self._one_at_a_time and batch):
            request = self._waiting[0]
            if request.future.cancelled():
                # Its caller has left before anything was sent, so it never happened.
                self._waiting.popleft().answer([])
                continue
            items += request.items
            size_bytes += request.size_bytes
            if batch and (items > BATCH_ITEMS_MAX or size_bytes > BATCH_BYTES_MAX):
                break
            batch.append(self._waiting.popleft())
        return batch

    def fail_all(self, error: Exception) -> None:
        while self._waiting:
            self._waiting.popleft().answer(error)

    def close(self) -> None:
        """Callers are refused from now on."""
        self.is_closed = True

    def finish(self) -> None:
        """What is waiting is the last."""
        self._is_finished = True
        self._arrived.set()
