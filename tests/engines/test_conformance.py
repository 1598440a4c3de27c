"""Every backend keeps the promises of the port."""

from __future__ import annotations

import functools
from pathlib import Path
from uuid import uuid4

import pytest

import penstock
from penstock import wiring
from penstock.address import Address
from penstock.ports.store import ObjectStore
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend import BackendConformance, Connect
from penstock.testing.conformance.backend.claiming import Claiming
from penstock.testing.conformance.backend.deduplication import Deduplication
from penstock.testing.conformance.backend.expiry import Expiry
from penstock.testing.conformance.backend.handles import Setting
from penstock.testing.conformance.backend.leases import Leases
from penstock.testing.conformance.backend.moving import Moving
from penstock.testing.optimistic_records import OptimisticRecords, SharedRecords
from penstock.testing.stamped_store import Stamped
from tests.servers.azure import ACCOUNT, ACCOUNT_KEY, Azurite
from tests.servers.gcs_double import TOKEN, GcsDouble
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed


@pytest.fixture
def stamped(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stores that URLs name go by the test's clock."""
    open_store, stamps = wiring.open_store, dict[str, float]()

    def open_stamped(address: Address) -> ObjectStore:
        return Stamped(open_store(address), clock, stamps)

    monkeypatch.setattr(wiring, "open_store", open_stamped)


@pytest.fixture(scope="module")
def bucket(seaweed: Seaweed) -> str:
    """One for all tests, each of which has a prefix of its own."""
    return seaweed.new_bucket()


@pytest.fixture(scope="module")
def container(azurite: Azurite) -> str:
    return azurite.new_container()


@pytest.fixture
def azure_url(azurite: Azurite, container: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
    return f"az://{container}/{uuid4().hex}?endpoint={azurite.endpoint}"


@pytest.fixture
def gcs_url(gcs_double: GcsDouble, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", TOKEN)
    return f"gs://{gcs_double.new_bucket()}/queue?endpoint={gcs_double.endpoint}"


class TestMemory(BackendConformance):
    shared = False

    @pytest.fixture
    def connect(self) -> Connect:
        return functools.partial(penstock.open, "memory://")


class TestSharedMemory(BackendConformance):
    @pytest.fixture
    def connect(self) -> Connect:
        return functools.partial(penstock.open, f"memory://{uuid4().hex}")


class TestMemoryStoreLog(BackendConformance):
    @pytest.fixture
    def connect(self, clock: FakeClock) -> Connect:
        return functools.partial(penstock.open, store=MemoryStore(now=clock.now), layout="log")


class TestMemoryStoreSingle(BackendConformance):
    @pytest.fixture
    def connect(self, clock: FakeClock) -> Connect:
        return functools.partial(penstock.open, store=MemoryStore(now=clock.now), layout="single")


class TestMemoryStoreTasks(BackendConformance):
    @pytest.fixture
    def connect(self, clock: FakeClock) -> Connect:
        return functools.partial(penstock.open, store=MemoryStore(now=clock.now), layout="tasks")


class TestWithoutGroupCommit(BackendConformance):
    @pytest.fixture
    def connect(self, clock: FakeClock) -> Connect:
        store = MemoryStore(now=clock.now)
        return functools.partial(penstock.open, store=store, group_commit=False)


@pytest.mark.usefixtures("stamped")
class TestFolderLog(BackendConformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return functools.partial(penstock.open, f"file://{tmp_path}/queue?layout=log&fsync=off")


@pytest.mark.usefixtures("stamped")
class TestFolderSingle(BackendConformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return functools.partial(penstock.open, f"file://{tmp_path}/queue?layout=single&fsync=off")


@pytest.mark.usefixtures("stamped")
class TestFolderTasks(BackendConformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return functools.partial(penstock.open, f"file://{tmp_path}/queue?layout=tasks&fsync=off")


class TestSqlite(BackendConformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return functools.partial(penstock.open, f"sqlite://{tmp_path}/queue.db?fsync=off")


class TestSqliteWithoutGroupCommit(BackendConformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        url = f"sqlite://{tmp_path}/queue.db?fsync=off&group_commit=off"
        return functools.partial(penstock.open, url)


class TestOptimisticRecords(BackendConformance):
    """A store that locks nothing: turns of several handles are lost and taken again."""

    @pytest.fixture
    def connect(self, clock: FakeClock) -> Connect:
        shared = SharedRecords(now=clock.now)
        return lambda **options: penstock.open(store=OptimisticRecords(shared), **options)


class TestOptimisticRecordsTwoBatchesAtOnce(BackendConformance):
    @pytest.fixture
    def connect(self, clock: FakeClock) -> Connect:
        shared = SharedRecords(now=clock.now)
        return lambda **options: penstock.open(
            store=OptimisticRecords(shared, batches_at_once=2), **options
        )


@pytest.mark.xdist_group("s3")
@pytest.mark.usefixtures("stamped")
class TestSeaweed(BackendConformance):
    @pytest.fixture
    def connect(self, seaweed: Seaweed, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Connect:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        url = f"s3://{bucket}/{uuid4().hex}?region=us-east-1&endpoint={seaweed.endpoint}"
        return functools.partial(penstock.open, url)


@pytest.mark.xdist_group("s3")
@pytest.mark.usefixtures("stamped")
class TestSeaweedTasks(BackendConformance):
    @pytest.fixture
    def connect(self, seaweed: Seaweed, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Connect:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        url = f"s3://{bucket}/{uuid4().hex}?region=us-east-1&endpoint={seaweed.endpoint}"
        return functools.partial(penstock.open, url, layout="tasks", allow_no_versioning=True)


@pytest.mark.xdist_group("azure")
@pytest.mark.usefixtures("stamped")
class TestAzurite(BackendConformance):
    @pytest.fixture
    def connect(self, azure_url: str) -> Connect:
        return functools.partial(penstock.open, azure_url)


@pytest.mark.asyncio
@pytest.mark.xdist_group("azure")
@pytest.mark.usefixtures("stamped")
class TestAzuriteTasks(Claiming, Leases, Expiry, Deduplication, Moving, Setting):
    """Where conditions and listings matter; the rest is as on other stores, and this one slow."""

    @pytest.fixture
    def connect(self, azure_url: str) -> Connect:
        return functools.partial(penstock.open, azure_url, layout="tasks")


@pytest.mark.xdist_group("gcs")
@pytest.mark.usefixtures("stamped")
class TestGcsDouble(BackendConformance):
    @pytest.fixture
    def connect(self, gcs_url: str) -> Connect:
        return functools.partial(penstock.open, gcs_url)


@pytest.mark.xdist_group("gcs")
@pytest.mark.usefixtures("stamped")
class TestGcsDoubleTasks(BackendConformance):
    @pytest.fixture
    def connect(self, gcs_url: str) -> Connect:
        return functools.partial(penstock.open, gcs_url, layout="tasks")
