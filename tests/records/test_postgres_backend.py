"""A queue in PostgreSQL keeps every promise of the backend, and tells the same story as memory."""

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
from tests.records.postgres_stores import OnTestClock, new_schema
from tests.servers.postgres import Postgres

EXAMPLES = 25
HANDLES = 3


@pytest.fixture(scope="module")
def database(postgres_server: Postgres) -> str:
    return postgres_server.new_database()


@pytest.mark.xdist_group("postgres")
class TestPostgres(BackendConformance):
    @pytest.fixture
    def connect(self, database: str, clock: FakeClock) -> Connect:
        schema, stamps = new_schema(), dict[str, float]()

        def connect(**options: Any) -> Queue:
            services = options.get("services") or Services()
            store = OnTestClock(database, schema, clock, services, stamps)
            return penstock.open(store=store, **options)

        return connect


@pytest.mark.xdist_group("postgres")
def test_a_script_shows_the_same_as_in_memory(database: str) -> None:
    def connect(clock: FakeClock, services: Services, folder: str) -> list[Queue]:
        schema, stamps = new_schema(), dict[str, float]()
        return [
            penstock.open(
                store=OnTestClock(database, schema, clock, services, stamps), services=services
            )
            for _ in range(HANDLES)
        ]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=SCRIPTS)
    def compare(script: list[Step]) -> None:
        expected = asyncio.run(played(in_memory, script))
        assert asyncio.run(played(connect, script)) == expected

    compare()
