"""What an SQLite file takes and gives back, and where it can be."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.sqlite import cleaning, mounts
from penstock.engines.records.sqlite.cleaning import Cleaner
from penstock.engines.records.sqlite.database import Database
from penstock.errors import Corrupt, StoreError, Unsupported
from penstock.testing.conformance.backend.steps import claim_one, completed, ids

JOBS = 500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
async def queue(path: Path) -> AsyncIterator[Queue]:
    async with penstock.open(f"sqlite://{path}?fsync=off") as queue:
        yield queue


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


# Vacuum


async def test_a_first_vacuum_goes_in_slices_and_others_write_in_between(
    queue: Queue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SLICE_COMMITS", 5)
    for n in range(42):
        await queue.enqueue("work", id=str(n))
    age_commits(path)
    gone: list[int] = []
    drop = Cleaner.drop_commits

    def watched(self: Cleaner, written_before: float, below: int) -> tuple[int, bool]:
        slice_ = drop(self, written_before, below)
        gone.append(slice_[0])
        with connected(path) as other:
            # No lock is held: who finds it taken would be refused here and now.
            other.execute("PRAGMA busy_timeout = 0")
            other.execute("CREATE TABLE IF NOT EXISTS others (id INTEGER)")
            other.execute("INSERT INTO others VALUES (1)")
        return slice_

    monkeypatch.setattr(Cleaner, "drop_commits", watched)
    report = await queue.vacuum()
    assert sum(gone) == report.log_objects >= 40
    assert max(gone) == 5
    assert len(await ids(queue)) == 42
    with connected(path) as connection:
        [(first,)] = connection.execute("SELECT min(number) FROM penstock_commits").fetchall()
    assert report.floor <= first


async def test_a_slice_ends_when_it_has_so_many_bytes(
    queue: Queue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SLICE_BYTES", 30_000)
    for _ in range(10):
        # More than is packed.
        await queue.enqueue("work", "x" * 20_000)
    age_commits(path)
    database = Database(str(path), fsync=False)
    database.open(make=False)
    try:
        cleaner = Cleaner(database)
        assert cleaner.drop_commits(9e9, 10**9) == (2, True)
        assert cleaner.drop_commits(9e9, 4) == (1, False)
    finally:
        database.close()


async def test_vacuum_gives_room_and_log_back_to_the_file_system(queue: Queue, path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    for _ in range(20):
        await queue.enqueue_many([NewJob("work", "x" * 5_000) for _ in range(50)])
        jobs = await queue.claim(50)
        await queue.ack(jobs)
    await queue.configure(result_ttl_seconds=0)
    await queue.enqueue("work")
    age_commits(path)
    before, log_before = size_of(path), size_of(log)
    await queue.vacuum()
    assert log_before > 0
    assert size_of(log) < 100_000
    assert size_of(path) < before / 2
    await queue.ack(await claim_one(queue))


async def test_the_file_of_an_application_keeps_its_own_way(path: Path) -> None:
    with connected(path) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER)")
    async with penstock.open(f"sqlite://{path}") as queue:
        await completed(queue)
        await queue.vacuum()
    with connected(path) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (0,)


def is_there(path: Path) -> bool:
    return path.exists()


def size_of(path: Path) -> int:
    return path.stat().st_size


def age_commits(path: Path) -> None:
    """As if all of them were from long ago."""
    with connected(path) as connection:
        connection.execute("UPDATE penstock_commits SET at = number")


# How much room a job takes


async def test_a_job_that_came_and_went_by_itself_takes_no_more_than_1500_bytes(
    queue: Queue, path: Path
) -> None:
    sizes: list[int] = []
    for jobs in (1, JOBS):
        for n in range(jobs):
            await queue.enqueue("work", {"n": n})
            await queue.ack(await claim_one(queue), {"ok": True})
        with connected(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes.append(size_of(path))
    assert (sizes[1] - sizes[0]) / JOBS <= 1_500


async def test_a_packed_commit_that_was_altered_is_corrupt(queue: Queue, path: Path) -> None:
    await completed(queue)
    with connected(path) as connection:
        connection.execute("UPDATE penstock_commits SET events = X'01FFFF' WHERE number = 2")
    with pytest.raises(Corrupt):
        _ = [event async for event in queue.events("beginning", follow=False)]


# Where it can be


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/our\\040share rw,relatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2
31 30 8:2 / /mnt/our\\040share/disk rw - xfs /dev/sdb1 rw
32 22 0:41 / /media rw - tmpfs tmpfs rw
33 22 0:42 / /media rw - fuse.sshfs me@host: rw
nonsense
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/srv/queue.db", "ext4"),
        ("/mnt/our share/queue.db", "nfs4"),
        ("/mnt/our share/disk/deep/queue.db", "xfs"),
        ("/mnt/our shared/queue.db", "ext4"),
        ("/media/queue.db", "fuse.sshfs"),
    ],
)
def test_a_file_is_on_what_is_mounted_nearest_above_it(place: str, kind: str) -> None:
    assert mounts.kind_in(MOUNTS, Path(place)) == kind


async def test_a_file_on_a_network_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "_MOUNTS", told)
    told.write_text(f"1 1 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path} rw - cifs //nas/x rw\n")
    with pytest.raises(Unsupported, match="cifs, over a network"):
        async with penstock.open(f"sqlite://{path}"):
            pass
    assert not is_there(path)
    for local in ("1 1 0:1 / / rw - ext4 x rw\n", "nonsense"):
        told.write_text(local)
        async with penstock.open(f"sqlite://{path}"):
            pass
    told.unlink()
    async with penstock.open(f"sqlite://{path}"):
        pass


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
async def test_a_file_that_is_gone_takes_no_more_jobs(fate: str, path: Path) -> None:
    """Who has it open could go on with it, and nobody else would ever see what was accepted."""
    async with penstock.open(f"sqlite://{path}") as queue:
        await queue.enqueue("work", id="before")
        if fate == "replaced":
            with connected(path) as source, connected(path.with_name("backup")) as backup:
                source.backup(backup)
        for ending in ("", "-wal", "-shm"):
            path.with_name(f"{path.name}{ending}").unlink()
        if fate == "replaced":
            path.with_name("backup").rename(path)
        with pytest.raises(StoreError, match="deleted or replaced"):
            await queue.enqueue("work", id="after")
        with pytest.raises(StoreError, match="deleted or replaced"):
            await queue.get("before")
        with pytest.raises(StoreError, match="deleted or replaced"):
            await queue.vacuum()
        with pytest.raises(StoreError, match="deleted or replaced"):
            await queue.claim(wait_seconds=600)
    async with penstock.open(f"sqlite://{path}") as queue:
        assert await ids(queue) == (["before"] if fate == "replaced" else [])
