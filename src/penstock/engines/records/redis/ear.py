"""Hearing that somebody has committed, and that work has come for those who wait at this handle.

A connection that nobody sends anything on does not tell that it is dead, so where it is silent it
is pinged; one that does not answer, or leads to where the queue was, is given up for another.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from penstock.engines.records.redis.connection import Connection
from penstock.engines.records.redis.keys import Keys
from penstock.ports.wakes import Heard, Wake

FOR_ALL: Final = b"everybody"
"""What is announced where whoever waits has to look; see prelude.lua."""

_wake_in: Final = msgspec.json.Decoder(tuple[str, str, str, str, int]).decode

SILENT_SECONDS_MAX: Final = 5.0
"""After that it is pinged."""
PONG_SECONDS_MAX: Final = 10.0


class Ear:
    def __init__(self, connection: Connection, keys: Keys, own: str) -> None:
        self._connection = connection
        self._channel = keys.changed
        self._own_channel = keys.wake(own)
        self._own = own.encode()
        """Who this process is: what it has written itself is no news to it."""
        self._subscription: PubSub | None = None
        self._place: object = None
        """To where it leads."""
        self._heard_at = 0.0
        self._pinged_at: float | None = None
        """Since when an answer is awaited."""

    async def wait(self, timeout_seconds: float) -> Heard:
        """Returns when something was announced since the last call, or time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        try:
            if self._subscription is None or self._is_lost(loop.time()):
                await self._subscribe(loop.time())
            assert self._subscription is not None
            while (rest := until - loop.time()) > 0:
                message = await self._subscription.get_message(timeout=rest)
                if message is not None:
                    self._heard_at, self._pinged_at = loop.time(), None
                heard = self._heard(message)
                if heard is not None:
                    return heard
            if self._pinged_at is None and loop.time() - self._heard_at >= SILENT_SECONDS_MAX:
                self._pinged_at = loop.time()
                await self._subscription.ping()
        except (RedisError, OSError) as error:
            await self.close()
            await self._connection.follow(error, self._place)
            raise self._connection.translate(error) from error
        return Heard()

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()  # type: ignore[no-untyped-call]  # the library's

    async def _subscribe(self, now: float) -> None:
        await self.close()
        self._place = self._connection.place
        self._heard_at, self._pinged_at = now, None
        self._subscription = self._connection.pubsub()
        await self._subscription.subscribe(self._channel, self._own_channel)

    def _is_lost(self, now: float) -> bool:
        is_mute = self._pinged_at is not None and now - self._pinged_at > PONG_SECONDS_MAX
        return is_mute or self._place is not self._connection.place

    def _heard(self, message: dict[str, Any] | None) -> Heard | None:
        """None: it is nothing to this handle."""
        if message is None:
            return None
        data, is_own = message["data"], message["channel"] == self._own_channel.encode()
        if message["type"] == "subscribe":
            # Nobody knows what was announced before.
            return Heard(is_news=True, is_for_all=True) if is_own else None
        if message["type"] != "message" or data == self._own:
            return None
        if is_own:
            name, tenant, queue, type, jobs = _wake_in(data)
            wake = Wake(tenant, queue, type, None if jobs < 0 else jobs)
            return Heard(wakes=[(name, wake)])
        return Heard(is_news=True, is_for_all=data == FOR_ALL)
