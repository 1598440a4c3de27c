"""Every store, and every layer, keeps the promises of the port."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.ports.store import ObjectStore
from penstock.runtime.clock import SystemClock
from penstock.stores.layers.counting import Counting
from penstock.stores.layers.prefixed import Prefixed
from penstock.stores.layers.retrying import Retrying
from penstock.stores.local import LocalStore, local_store
from penstock.stores.memory import MemoryStore
from penstock.testing.conformance.store import StoreConformance
from penstock.testing.faults import Faults
from penstock.testing.faulty_store import FaultyStore
from tests.servers.azure import Azurite
from tests.servers.gcs_double import GcsDouble
from tests.servers.seaweed import Seaweed
from tests.stores.clocks import JumpingClock


class TestMemory(StoreConformance):
    @pytest.fixture
    async def store(self) -> ObjectStore:
        return MemoryStore()


class TestLocalSynced(StoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        store = LocalStore(tmp_path / "queue", fsync=True)
        yield store
        await store.close()


class TestLocalUnsynced(StoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        store = LocalStore(tmp_path / "queue", fsync=False)
        yield store
        await store.close()


class TestLocalWithoutNamelessFiles(StoreConformance):
    """As on macOS and on file systems that have none."""

    @pytest.fixture
    async def store(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[ObjectStore]:
        monkeypatch.delattr("os.O_TMPFILE", raising=False)
        store = LocalStore(tmp_path / "queue", fsync=False)
        yield store
        await store.close()


class TestLocalWatched(StoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        store = local_store(tmp_path / "queue", fsync=False)
        yield store
        await store.close()


class TestSeaweed(StoreConformance):
    flat = False

    @pytest.fixture
    async def store(self, seaweed: Seaweed) -> AsyncIterator[ObjectStore]:
        store = seaweed.store()
        yield store
        await store.close()


class TestSeaweedUnderAPrefix(StoreConformance):
    flat = False
    many_keys = 0

    @pytest.fixture
    async def store(self, seaweed: Seaweed) -> AsyncIterator[ObjectStore]:
        store = seaweed.store(prefix="queues/mail")
        yield store
        await store.close()


class TestAzurite(StoreConformance):
    @pytest.fixture
    async def store(self, azurite: Azurite) -> AsyncIterator[ObjectStore]:
        store = azurite.store()
        yield store
        await store.close()


class TestGcsDouble(StoreConformance):
    @pytest.fixture
    async def store(self, gcs_double: GcsDouble) -> AsyncIterator[ObjectStore]:
        store = gcs_double.store(prefix="queues/mail")
        yield store
        await store.close()


class TestPrefixed(StoreConformance):
    @pytest.fixture
    async def store(self) -> ObjectStore:
        return Prefixed(MemoryStore(), "queues/mail")


class TestCounting(StoreConformance):
    @pytest.fixture
    async def store(self) -> ObjectStore:
        return Counting(MemoryStore())


class TestRetrying(StoreConformance):
    @pytest.fixture
    async def store(self) -> ObjectStore:
        return Retrying(MemoryStore(), JumpingClock())


class TestFaultyWithoutFaults(StoreConformance):
    @pytest.fixture
    async def store(self) -> ObjectStore:
        return FaultyStore(MemoryStore(), SystemClock(), random.Random(1))


class TestRetryingOverFaultyReads(StoreConformance):
    """Trouble with reads is waited out, and nobody above notices."""

    @pytest.fixture
    async def store(self) -> ObjectStore:
        clock = JumpingClock()
        faults = Faults(get_error=0.2, list_error=0.2, delete_error=0.1, delete_lost_answer=0.1)
        faulty = FaultyStore(MemoryStore(), clock, random.Random(7), faults)
        return Retrying(faulty, clock)
