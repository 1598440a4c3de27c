"""Hearing that somebody has committed: a subscription to the channel where it is announced.

A connection that nobody sends anything on does not tell that it is dead, so where it is silent it
is pinged; one that does not answer, or leads to where the queue was, is given up for another.
"""

from __future__ import annotations

import asyncio
from typing import Final

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from penstock.engines.records.redis.connection import Connection

SILENT_SECONDS_MAX: Final = 5.0
"""After that it is pinged."""
PONG_SECONDS_MAX: Final = 10.0


class Ear:
    def __init__(self, connection: Connection, channel: str, own: str) -> None:
        self._connection = connection
        self._channel = channel
        self._own = own.encode()
        """Who this process is: what it has written itself is no news to it."""
        self._subscription: PubSub | None = None
        self._place: object = None
        """To where it leads."""
        self._heard_at = 0.0
        self._pinged_at: float | None = None
        """Since when an answer is awaited."""

    async def wait(self, timeout_seconds: float) -> None:
        """Returns when something was announced since the last call, or time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        try:
            if self._subscription is None or self._is_lost(loop.time()):
                await self._subscribe(loop.time())
                # Nobody knows what was announced before.
                return
            while (rest := until - loop.time()) > 0:
                message = await self._subscription.get_message(timeout=rest)
                if message is not None:
                    self._heard_at, self._pinged_at = loop.time(), None
                if self._is_news(message):
                    return
            if self._pinged_at is None and loop.time() - self._heard_at >= SILENT_SECONDS_MAX:
                self._pinged_at = loop.time()
                await self._subscription.ping()
        except (RedisError, OSError) as error:
            await self.close()
            await self._connection.follow(error, self._place)
            raise self._connection.translate(error) from error

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()  # type: ignore[no-untyped-call]  # the library's

    async def _subscribe(self, now: float) -> None:
        await self.close()
        self._place = self._connection.place
        self._heard_at, self._pinged_at = now, None
        self._subscription = self._connection.pubsub()
        await self._subscription.subscribe(self._channel)

    def _is_lost(self, now: float) -> bool:
        is_mute = self._pinged_at is not None and now - self._pinged_at > PONG_SECONDS_MAX
        return is_mute or self._place is not self._connection.place

    def _is_news(self, message: dict[str, object] | None) -> bool:
        """From when on it is told of everything the server says, and that is news as well."""
        if message is None or message["type"] == "pong":
            return False
        return message["type"] == "subscribe" or message["data"] != self._own
