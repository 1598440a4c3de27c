"""Hearing that somebody has committed, and that work has come: one connection that listens, and is
made again when lost."""

from __future__ import annotations

import logging
from typing import Final

import msgspec
import psycopg
from psycopg import AsyncConnection

from penstock.engines.records.postgres.database import RETRY_SECONDS, RETRY_SECONDS_MAX, Database
from penstock.engines.records.postgres.writing import FOR_ALL
from penstock.ports.wakes import Heard, Wake
from penstock.runtime.clock import SystemClock
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import Latch, TaskSet

logger = logging.getLogger(__name__)

_wake_in: Final = msgspec.json.Decoder(tuple[str, str, str, str, int | None]).decode
LOOK_SECONDS: Final = 0.5
"""How often who waits looks for news that nobody tells."""


class Ear:
    """Begins to listen when it is first asked. Its own handle's commits it does not mention."""

    def __init__(self, database: Database, channel: str, own: str, services: Services) -> None:
        self._database = database
        self._channel = channel
        self._own = own
        self._own_channel = f"penstock_{own}"
        self._services = services
        self._clock = SystemClock()
        self._is_told = Latch()
        self._heard = Heard()
        """What was heard since the last wait."""
        self.session: int | None = None
        """The server's number of the connection, while it listens."""
        self._tasks = TaskSet("postgres")
        self._is_listening = False

    async def wait(self, timeout_seconds: float) -> Heard:
        """Until something was heard since the last wait, or the time is up.

        Where nothing can be heard, until it is time to look.
        """
        if not self._database.can_listen:
            await self._clock.sleep(min(timeout_seconds, LOOK_SECONDS))
            return Heard(is_news=True, is_for_all=True)
        if not self._is_listening:
            self._is_listening = True
            self._tasks.keep("listening", self._listen)
        await self._is_told.wait(timeout_seconds)
        heard, self._heard = self._heard, Heard()
        return heard

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
                    for channel in (self._channel, self._own_channel):
                        await connection.execute(f'LISTEN "{channel}"'.encode())
                    complaints.fine()
                    backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
                    self.session = connection.info.backend_pid
                    # Whatever happened before is heard of now.
                    self._hear(Heard(is_news=True, is_for_all=True))
                    async for told in connection.notifies():
                        self._note(told)
            except psycopg.Error as error:
                complaints.trouble("listening to the server", error)
                self._hear(Heard(is_news=True, is_for_all=True))
            finally:
                self.session = None
            await self._clock.sleep(backoff.next_seconds())

    def _note(self, told: psycopg.Notify) -> None:
        if told.channel == self._own_channel:
            name, tenant, queue, type, jobs = _wake_in(told.payload)
            self._hear(Heard(wakes=[(name, Wake(tenant, queue, type, jobs))]))
        elif told.payload != self._own:
            self._hear(Heard(is_news=True, is_for_all=told.payload == FOR_ALL))

    def _hear(self, more: Heard) -> None:
        before = self._heard
        self._heard = Heard(
            before.is_news or more.is_news,
            before.is_for_all or more.is_for_all,
            [*before.wakes, *more.wakes],
        )
        self._is_told.set()
