"""Hearing that somebody has committed, and that work has come for those who wait at this handle."""

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


class Ear:
    def __init__(self, connection: Connection, keys: Keys, own: str) -> None:
        self._connection = connection
        self._channel = keys.changed
        self._own_channel = keys.wake(own)
        self._own = own.encode()
        """Who this process is: what it has written itself is no news to it."""
        self._subscription: PubSub | None = None

    async def wait(self, timeout_seconds: float) -> Heard:
        """Returns when something was announced since the last call, or time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        try:
            if self._subscription is None:
                self._subscription = self._connection.pubsub()
                await self._subscription.subscribe(self._channel, self._own_channel)
            while (rest := until - loop.time()) > 0:
                heard = self._heard(await self._subscription.get_message(timeout=rest))
                if heard is not None:
                    return heard
        except (RedisError, OSError) as error:
            await self.close()
            raise self._connection.translate(error) from error
        return Heard()

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()  # type: ignore[no-untyped-call]  # the library's

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
