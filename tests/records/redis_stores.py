"""Stores of records in a real Redis that go by the test's clock, as a queue on them has to."""

from __future__ import annotations

from uuid import uuid4

import msgspec

from penstock.engines.records.redis.store import RedisStore
from penstock.ports.backend import Capabilities
from penstock.ports.clock import Clock
from penstock.runtime.services import Services
from penstock.testing.stamped_store import Stamped


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
