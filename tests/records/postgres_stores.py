"""Queues in PostgreSQL for tests: each in a schema of its own, some on a clock of the test's."""

from __future__ import annotations

from uuid import uuid4

from penstock.engines.records.postgres.store import PostgresStore
from penstock.ports.clock import Clock
from penstock.runtime.services import Services
from penstock.testing.stamped_store import Stamped


def new_schema() -> str:
    return f"queue_{uuid4().hex}"


class OnTestClock(PostgresStore):
    """The server's clock can't be set, so what it stamps is stamped again."""

    def __init__(
        self, url: str, schema: str, clock: Clock, services: Services, stamps: dict[str, float]
    ) -> None:
        super().__init__(url, services, schema=schema, fsync=False)
        self.side = Stamped(self.side, clock, stamps)

    @property
    def has_own_clock(self) -> bool:
        return False
