"""PostgreSQL keeps the promises of the port to records, and of the objects beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from penstock.engines.records.postgres.store import PostgresStore
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.testing.conformance.records import Connect, RecordStoreConformance
from penstock.testing.conformance.store import StoreConformance
from tests.servers.postgres import Postgres


@pytest.mark.xdist_group("postgres")
class TestPostgres(RecordStoreConformance):
    @pytest.fixture
    def connect(self, postgres_server: Postgres) -> Connect:
        url = postgres_server.new_database()
        return lambda: PostgresStore(url, Services(), fsync=False)


@pytest.mark.xdist_group("postgres")
class TestPostgresObjects(StoreConformance):
    @pytest.fixture
    async def store(self, postgres_server: Postgres) -> AsyncIterator[ObjectStore]:
        records = PostgresStore(postgres_server.new_database(), Services(), fsync=False)
        await records.open()
        yield records.side
        await records.close()
