"""The pipeline as the queue sees it: a registered reader that vacuum waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

from penstock.address import Address, parse
from penstock.engines.ledger.log.floor import read_floor
from penstock.engines.ledger.marker import read_marker
from penstock.errors import Gap, NoQueue
from penstock.kernel.commands import MoveConsumer
from penstock.kernel.events import SYSTEM_TENANT, commit_of, position_of
from penstock.ports.backend import Backend
from penstock.ports.clock import Clock
from penstock.ports.store import ObjectStore
from penstock.runtime.loops import LoopThread
from penstock.runtime.services import Services
from penstock.wiring import open_backend, open_patient_store

KEEP_ALIVE_SECONDS: Final = 86_400.0
"""A consumer that does not move for thirty days is dropped; this is well below."""


class Consumer:
    def __init__(
        self,
        name: str,
        queue_id: str,
        backend: Backend,
        store: ObjectStore,
        loop: LoopThread,
        clock: Clock,
    ) -> None:
        self.name = name
        self.queue_id = queue_id
        """Names this queue and no other, wherever it is moved."""
        self._backend = backend
        self._store = store
        self._loop = loop
        self._clock = clock
        self._echo = 0
        self._moved_at = float("-inf")

    def head(self) -> int:
        """The newest commit."""
        return commit_of(self._loop.run(self._backend.last_position()))

    def floor(self) -> int:
        return self._loop.run(read_floor(self._store))

    def require(self, cursor: int) -> None:
        """Raises `Gap` if what comes after the cursor is there no more."""
        floor = self.floor()
        if cursor + 1 < floor:
            raise Gap(position_of(cursor + 1, 0), floor)

    def move(self, cursor: int) -> None:
        """Registers, or says that everything up to this commit has been taken."""
        reached = position_of(max(cursor, 0), 0)
        self._loop.run(self._backend.execute(MoveConsumer(SYSTEM_TENANT, self.name, reached)))
        self._echo = self.head()
        self._moved_at = self._clock.elapsed()

    def is_idle(self, cursor: int, head: int) -> bool:
        """Whether nothing is new but this consumer's own last move, which it need not say again."""
        is_quiet = head <= cursor or head == self._echo == cursor + 1
        return is_quiet and not self.is_silent_for(KEEP_ALIVE_SECONDS)

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
        store = open_patient_store(address, services)
        backend = open_backend(address, services)
        try:
            queue_id = loop.run(_queue_id(store, address))
            loop.run(backend.start())
            name = consumer_name(warehouse)
            yield Consumer(name, queue_id, backend, store, loop, services.clock)
        finally:
            loop.run(backend.stop())
            loop.run(store.close())


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


async def _queue_id(store: ObjectStore, address: Address) -> str:
    marker = await read_marker(store)
    if marker is None:
        raise NoQueue(address.shown_url)
    return f"penstock-{marker.nonce}"
