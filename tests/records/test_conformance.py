"""Every store of records keeps the promises of its port, and of the objects beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.engines.records.redis.store import RedisStore
from penstock.engines.records.sqlite.store import SqliteStore
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.testing.conformance.records import Connect, RecordStoreConformance
from penstock.testing.conformance.store import StoreConformance
from penstock.testing.optimistic_records import OptimisticRecords, SharedRecords
from tests.servers.redis import Redis


class TestSqlite(RecordStoreConformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return lambda: SqliteStore(f"{tmp_path}/queue.db", Services(), fsync=False)


class TestRedis(RecordStoreConformance):
    @pytest.fixture
    def connect(self, redis_server: Redis) -> Connect:
        prefix = uuid4().hex
        return lambda: RedisStore(redis_server.url, prefix, Services())


class TestOptimistic(RecordStoreConformance):
    @pytest.fixture
    def connect(self) -> Connect:
        shared = SharedRecords()
        return lambda: OptimisticRecords(shared)


class TestSqliteObjects(StoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        records = SqliteStore(f"{tmp_path}/queue.db", Services(), fsync=False)
        await records.open()
        yield records.side
        await records.close()


class TestRedisObjects(StoreConformance):
    @pytest.fixture
    async def store(self, redis_server: Redis) -> AsyncIterator[ObjectStore]:
        records = RedisStore(redis_server.url, uuid4().hex, Services())
        await records.open()
        yield records.side
        await records.close()
