"""A queue in Redis or Valkey keeps all promises of a backend, and tells the story of memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import penstock
from penstock import Queue
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend import BackendConformance, Connect
from tests.engines.scripts import Step
from tests.engines.test_differential import SCRIPTS, in_memory, played
from tests.records.redis_stores import TimedRedisQueue
from tests.servers.redis import Redis

EXAMPLES = 30
HANDLES = 3


class TestRedis(BackendConformance):
    @pytest.fixture
    def connect(self, redis_server: Redis, clock: FakeClock) -> Connect:
        place = TimedRedisQueue(redis_server.url, clock)
        return lambda **options: penstock.open(store=place.connect(), **options)


class TestRedisWithoutGroupCommit(BackendConformance):
    @pytest.fixture
    def connect(self, redis_server: Redis, clock: FakeClock) -> Connect:
        place = TimedRedisQueue(redis_server.url, clock)
        return lambda **options: penstock.open(store=place.connect(), group_commit=False, **options)


class TestValkey(BackendConformance):
    @pytest.fixture
    def connect(self, valkey_server: Redis, clock: FakeClock) -> Connect:
        place = TimedRedisQueue(valkey_server.url, clock)
        return lambda **options: penstock.open(store=place.connect(), **options)


@pytest.mark.parametrize(("handles", "options"), [(HANDLES, {}), (1, {"group_commit": False})])
def test_a_script_shows_the_same_as_in_memory(
    redis_server: Redis, handles: int, options: dict[str, Any]
) -> None:
    def connect(clock: FakeClock, services: Services, folder: str) -> list[Queue]:
        place = TimedRedisQueue(redis_server.url, clock)
        return [
            penstock.open(store=place.connect(services), services=services, **options)
            for _ in range(handles)
        ]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=SCRIPTS)
    def compare(script: list[Step]) -> None:
        expected = asyncio.run(played(in_memory, script))
        assert asyncio.run(played(connect, script)) == expected

    compare()
