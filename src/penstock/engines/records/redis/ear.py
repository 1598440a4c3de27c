"""Hearing that somebody has committed: a subscription to the channel where it is announced."""

from __future__ import annotations

import asyncio

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from penstock.engines.records.redis.connection import Connection


class Ear:
    def __init__(self, connection: Connection, channel: str, own: str) -> None:
        self._connection = connection
        self._channel = channel
        self._own = own.encode()
        """Who this process is: what it has written itself is no news to it."""
        self._subscription: PubSub | None = None

    async def wait(self, timeout_seconds: float) -> None:
        """Returns when something was announced since the last call, or time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        try:
            if self._subscription is None:
                # Nobody knows what was announced before.
                self._subscription = self._connection.pubsub()
                await self._subscription.subscribe(self._channel)
                return
            while (rest := until - loop.time()) > 0:
                if self._is_news(await self._subscription.get_message(timeout=rest)):
                    return
        except (RedisError, OSError) as error:
            await self.close()
            raise self._connection.translate(error) from error

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()  # type: ignore[no-untyped-call]  # the library's

    def _is_news(self, message: dict[str, object] | None) -> bool:
        return message is not None and message["type"] == "message" and message["data"] != self._own
