"""Stores of records in a real Redis that go by the test's clock, as a queue on them has to."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from uuid import uuid4

import msgspec
import redis

from penstock.engines.records.redis.packing import events_in
from penstock.engines.records.redis.store import RedisStore
from penstock.ports.backend import Capabilities
from penstock.ports.clock import Clock
from penstock.runtime.services import Services
from penstock.testing.stamped_store import Stamped

_FRAME = Struct(">BdI")
_BUCKET = 32
_TOKEN_BYTES = 12


class TimedRedis(RedisStore):
    """Its objects are stamped with the test's time. Tests take their turns one after the other, so
    that nothing is ever reserved and the order has to be strict."""

    def __init__(
        self, url: str, prefix: str, services: Services, clock: Clock, stamps: dict[str, float]
    ) -> None:
        super().__init__(url, prefix, services)
        self.side = Stamped(self.side, clock, stamps)

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(super().capabilities, order="strict")


class TimedRedisQueue:
    """One queue in a server, to which as many handles connect as one likes."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._prefix = uuid4().hex
        self._clock = clock
        self._stamps: dict[str, float] = {}

    def connect(self, services: Services | None = None) -> TimedRedis:
        made = services or Services()
        return TimedRedis(self._url, self._prefix, made, self._clock, self._stamps)


def stored_commits(client: redis.Redis, root: str) -> Iterator[tuple[int, bytes]]:
    """What lies in the server, read without the store: numbers and events, in order."""
    for bucket in client.zrange(f"{root}buckets", 0, -1):
        found, place = dict[int, bytes](), 0
        value = bytes(client.get(f"{root}bucket/{int(bucket)}"))
        while place < len(value):
            offset, _, length = _FRAME.unpack_from(value, place)
            number, start = int(bucket) * _BUCKET + offset, place + _FRAME.size + _TOKEN_BYTES
            place = start + length
            found[number] = value[start:place] or bytes(client.get(f"{root}commit/{number}"))
        yield from ((number, events_in(found[number])) for number in sorted(found))
