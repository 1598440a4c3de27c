"""A worker's registration: what people see of it in `penstock workers`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from penstock.client.queue import Queue
from penstock.errors import PenstockError
from penstock.ports.backend import WorkerRecord
from penstock.runtime.services import Services
from penstock.runtime.tasks import first_of, within

logger = logging.getLogger(__name__)

RUNNING_SHOWN_MAX: Final = 100
FAREWELL_SECONDS_MAX: Final = 5.0
"""A worker that stops does not wait longer for a store that is away."""


class Registration:
    def __init__(
        self,
        queue: Queue,
        services: Services,
        describe: Callable[[], WorkerRecord],
    ) -> None:
        self._queue = queue
        self._services = services
        self._describe = describe
        self._changed = asyncio.Event()

    def refresh(self) -> None:
        """What it says is not true any more: it is said again at once."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            await self._say(self._describe())
            seconds = self._queue.capabilities.registration_seconds
            await first_of(self._services.clock.sleep(seconds), self._changed.wait())

    async def end(self) -> None:
        farewell = self._queue.unregister(self._describe().id)
        try:
            if not await within(FAREWELL_SECONDS_MAX, self._services.clock, farewell):
                raise TimeoutError
        except (PenstockError, TimeoutError) as error:
            logger.info("the registration stays until it is forgotten: %s", error)

    async def _say(self, record: WorkerRecord) -> None:
        try:
            await self._queue.register(record)
        except PenstockError as error:
            # Only for people to look at; the next one is seconds away.
            logger.info("could not register: %s", error)
        except Exception:
            logger.exception("could not register")


def default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
