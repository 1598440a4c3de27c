"""Stores of records in a real Redis that go by the test's clock, as a queue on them has to."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any
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
    for _, frames in _buckets(client, root):
        for number, frame in sorted(frames.items()):
            events = frame[_FRAME.size + _TOKEN_BYTES :] or _value(client, f"{root}commit/{number}")
            yield number, events_in(events)


def forget_commit(client: redis.Redis, root: str, place: int) -> None:
    """Takes one out, as no server should."""
    [gone] = [number for n, (number, _) in enumerate(stored_commits(client, root)) if n == place]
    for name, frames in list(_buckets(client, root)):
        client.set(name, b"".join(frame for number, frame in frames.items() if number != gone))


def _buckets(client: redis.Redis, root: str) -> Iterator[tuple[str, dict[int, bytes]]]:
    """The names of the buckets, and their commits."""
    buckets: Any = client.zrange(f"{root}buckets", 0, -1)
    for bucket in map(int, buckets):
        name, frames, place = f"{root}bucket/{bucket}", dict[int, bytes](), 0
        value = _value(client, name)
        while place < len(value):
            offset, _, length = _FRAME.unpack_from(value, place)
            end = place + _FRAME.size + _TOKEN_BYTES + length
            frames[bucket * _BUCKET + offset] = value[place:end]
            place = end
        yield name, frames


def _value(client: redis.Redis, name: str) -> bytes:
    value = client.get(name)
    assert isinstance(value, bytes)
    return value
