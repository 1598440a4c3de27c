"""Every store of records keeps the promises of its port, and of the objects beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.engines.records.sqlite.store import SqliteStore
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.testing.conformance.records import Connect, RecordStoreConformance
from penstock.testing.conformance.store import StoreConformance
from penstock.testing.optimistic_records import OptimisticRecords, SharedRecords


class TestSqlite(RecordStoreConformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return lambda: SqliteStore(f"{tmp_path}/queue.db", Services(), fsync=False)


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
