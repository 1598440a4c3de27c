"""The pipeline as the queue sees it: a registered reader that vacuum waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from hashlib import sha256
from typing import Final

from penstock.address import parse
from penstock.engines.records.tasks.positions import earlier
from penstock.engines.records.tasks.stories import LATE_SECONDS
from penstock.errors import Gap
from penstock.kernel.commands import MoveConsumer
from penstock.kernel.events import SYSTEM_TENANT, ConsumerMoved, commit_of, position_of
from penstock.pipeline.identity import queue_id
from penstock.pipeline.source.chunks import Span
from penstock.pipeline.source.opening import QueueSource, opened, opened_backend
from penstock.ports.backend import Backend
from penstock.ports.clock import Clock
from penstock.runtime.loops import LoopThread
from penstock.runtime.services import Services
from penstock.wire.commit import decode_event

KEEP_ALIVE_SECONDS: Final = 86_400.0
"""A consumer that does not move for thirty days is dropped; this is well below."""


class Consumer:
    def __init__(
        self,
        name: str,
        queue_id: str,
        backend: Backend,
        source: QueueSource,
        loop: LoopThread,
        clock: Clock,
    ) -> None:
        self.name = name
        self.queue_id = queue_id
        """Names this queue and no other, wherever it is moved."""
        self._backend = backend
        self._source = source
        self.loop = loop
        self._clock = clock
        self._echo = 0
        self._moved_at = float("-inf")

    @property
    def is_ordered(self) -> bool:
        """Whether all events are in one order, so that what is below the newest stays as it is."""
        return self._backend.capabilities.events == "ordered"

    def head(self) -> int:
        """The newest commit; where events are in no common order, the number of this moment."""
        return commit_of(self.loop.run(self._backend.last_position()))

    def floor(self) -> int:
        """The first commit that can still be read."""
        return self.loop.run(self._source.floor())

    def reach(self, span: Span, commits_max: int) -> int:
        """Where so many commits end. Their numbers may jump, as on a Redis that was restarted."""
        return self.loop.run(self._source.up_to_commits(span, commits_max))

    def require(self, cursor: int) -> None:
        """Raises `Gap` if what comes after the cursor is there no more."""
        floor = self.floor()
        if cursor + 1 < floor:
            raise Gap(position_of(cursor + 1, 0), floor)

    def move(self, cursor: int) -> None:
        """Registers, or says that everything up to this commit has been taken."""
        reached = position_of(max(cursor, 0), 0)
        if not self.is_ordered:
            # What is stored in time after a look stands above this; vacuum keeps what is late.
            reached = earlier(reached, LATE_SECONDS)
        self.loop.run(self._backend.execute(MoveConsumer(SYSTEM_TENANT, self.name, reached)))
        self._echo = self.head()
        self._moved_at = self._clock.elapsed()

    def is_idle(self, cursor: int, head: int) -> bool:
        """Whether nothing is new but this consumer's own last move, which it need not say again."""
        is_quiet = head <= cursor or (
            head == self._echo and self.loop.run(self._is_one_move(Span(cursor + 1, head)))
        )
        return is_quiet and not self.is_silent_for(KEEP_ALIVE_SECONDS)

    async def _is_one_move(self, span: Span) -> bool:
        """Numbers may be skipped, so that the next commit need not be the next number."""
        moves = 0
        async with aclosing(self._source.chunks(span)) as chunks:
            async for chunk in chunks:
                for event in map(decode_event, chunk.lines.splitlines()):
                    moves += 1
                    is_own = isinstance(event, ConsumerMoved) and event.consumer == self.name
                    if moves > 1 or not is_own:
                        return False
        return moves == 1

    def is_silent_for(self, seconds: float) -> bool:
        return self._clock.elapsed() - self._moved_at >= seconds


@contextmanager
def opened_consumer(
    url: str, warehouse: str, services: Services | None = None
) -> Iterator[Consumer]:
    """The queue, open; it is not made if it is not there."""
    services = services or Services()
    address = parse(url, {})
    with _running_loop() as loop:
        stack = AsyncExitStack()
        try:
            named = loop.run(queue_id(address, services))
            source = loop.run(stack.enter_async_context(opened(address)))
            backend = loop.run(stack.enter_async_context(opened_backend(address, services)))
            yield Consumer(consumer_name(warehouse), named, backend, source, loop, services.clock)
        finally:
            loop.run(stack.aclose())


@contextmanager
def _running_loop() -> Iterator[LoopThread]:
    loop = LoopThread("penstock consumer")
    try:
        yield loop
    finally:
        loop.stop()


def consumer_name(warehouse: str) -> str:
    """The same for every run on one warehouse."""
    return f"pipeline-{sha256(warehouse.encode()).hexdigest()[:16]}"
