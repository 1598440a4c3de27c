"""Hearing that somebody has committed: one connection that listens, and is made again when lost."""

from __future__ import annotations

import logging
from typing import Final

import psycopg
from psycopg import AsyncConnection

from penstock.engines.records.postgres.database import RETRY_SECONDS, RETRY_SECONDS_MAX, Database
from penstock.runtime.clock import SystemClock
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import Latch, TaskSet

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
"""How often who waits looks for news that nobody tells."""


class Ear:
    """Begins to listen when it is first asked. Its own handle's commits it does not mention."""

    def __init__(self, database: Database, channel: str, own: str, services: Services) -> None:
        self._database = database
        self._channel = channel
        self._own = own
        self._services = services
        self._clock = SystemClock()
        self._heard = Latch()
        self._tasks = TaskSet("postgres")
        self._is_listening = False

    async def wait(self, timeout_seconds: float) -> None:
        """Until something was heard since the last wait, or the time is up.

        Where nothing can be heard, until it is time to look.
        """
        if not self._database.can_listen:
            await self._clock.sleep(min(timeout_seconds, LOOK_SECONDS))
            return
        if not self._is_listening:
            self._is_listening = True
            self._tasks.keep("listening", self._listen)
        await self._heard.wait(timeout_seconds)

    async def close(self) -> None:
        await self._tasks.stop()

    async def _listen(self) -> None:
        complaints = Complaints(logger, self._clock)
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            try:
                async with await AsyncConnection.connect(
                    **self._database.parameters, autocommit=True
                ) as connection:
                    await connection.execute(f"LISTEN {self._channel}".encode())
                    complaints.fine()
                    backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
                    # Whatever happened before is heard of now.
                    self._heard.set()
                    async for told in connection.notifies():
                        if told.payload != self._own:
                            self._heard.set()
            except psycopg.Error as error:
                complaints.trouble("listening to the server", error)
                self._heard.set()
            await self._clock.sleep(backoff.next_seconds())
