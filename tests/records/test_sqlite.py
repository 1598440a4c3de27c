"""SQLite: the lock, the disk, foreign tables, and rows that somebody has altered."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.sqlite import database
from penstock.engines.records.statements import migrations, statements
from penstock.errors import Corrupt, InvalidURL, NewerFormat, StoreUnavailable
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import claim_one, completed, found, ids, nonzero

PACKAGE = "penstock.engines.records.sqlite"
BACKLOG = 2_000
FILES = ("finding.sql", "lanes.sql", "lists.sql", "writing.sql", "cleaning.sql", "objects.sql")
WHOLE_TABLES = {
    *("head", "first_commit", "move_head", "set_charter", "raise_first_commit"),  # one row
    "sides",  # by vacuum, as many as there are large values
    "first_commits",  # by vacuum, as many as a slice has
    "lane_numbered",  # for pending records that are removed, which nobody does
}


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


async def test_a_queue_says_what_it_can_do(path: Path) -> None:
    async with penstock.open(f"sqlite://{path}") as queue:
        can = queue.capabilities
        assert (can.backend, can.durability) == (f"sqlite://{path}", "strict")
        assert (can.order, can.pause, can.atomic_batch, can.multi_process) == (
            "strict", "strict", True, True,
        )  # fmt: skip
        with connected(path) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_without_fsync_durability_is_relaxed(queue: Queue) -> None:
    assert queue.capabilities.durability == "relaxed"


@pytest.mark.parametrize(
    "url", ["sqlite://queue.db", "sqlite://", "sqlite:///", "sqlite:///var/queue.db?layout=log"]
)
def test_an_address_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(InvalidURL, match=r"sqlite:///?var|no layout"):
        penstock.open(url)


async def test_a_lock_that_another_holds_is_waited_for(queue: Queue, path: Path) -> None:
    with connected(path) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.gather(queue.enqueue("work", id="patient"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.05)
        other.execute("COMMIT")
        [receipt] = await waiting
    assert receipt.status == "queued"


async def test_a_lock_that_is_held_for_ever_is_said_and_nothing_happened(
    queue: Queue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS_MAX", 0.02)
    with connected(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="lock"):
            await queue.enqueue("work", id="refused")
        assert await ids(queue) == [], "reading needs no lock"
        other.execute("COMMIT")
    assert (await queue.enqueue("work", id="refused")).status == "queued"


async def test_handles_in_one_process_take_turns(path: Path) -> None:
    url = f"sqlite://{path}?fsync=off"
    async with penstock.open(url) as first, penstock.open(url) as second:
        for queue in (first, second):
            await queue.enqueue_many([NewJob("work") for _ in range(50)])
        done: list[str] = []

        async def work(queue: Queue) -> None:
            while jobs := await queue.claim(3):
                await queue.ack(jobs)
                done.extend(job.id for job in jobs)

        await asyncio.gather(*(work(queue) for queue in (first, second) * 3))
        assert len(done) == len(set(done)) == 100
        assert nonzero((await first.stats()).totals) == {State.COMPLETED: 100}


async def test_a_schema_newer_than_the_code_is_refused(path: Path) -> None:
    async with penstock.open(f"sqlite://{path}") as queue:
        await queue.enqueue("work")
    with connected(path) as connection:
        connection.execute("UPDATE penstock_schema SET version = 99")
    with pytest.raises(NewerFormat, match="upgrade penstock") as raised:
        async with penstock.open(f"sqlite://{path}"):
            pass
    assert (raised.value.level, raised.value.known) == (99, len(migrations(PACKAGE)))


async def test_two_that_make_one_queue_at_the_same_time_make_one(path: Path) -> None:
    url = f"sqlite://{path}?fsync=off"
    queues = [penstock.open(url) for _ in range(6)]
    await asyncio.gather(*(queue.start() for queue in queues))
    await asyncio.gather(*(queue.enqueue("work", id="one") for queue in queues))
    assert await ids(queues[0]) == ["one"]
    for queue in queues:
        await queue.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE penstock_jobs SET body = CAST(replace(body, 'job', 'bob') AS BLOB)",
        "UPDATE penstock_jobs SET body = CAST(substr(body, 1, 40) AS BLOB)",
        "UPDATE penstock_jobs SET place = -2, at = 1",
        "UPDATE penstock_jobs SET place = -9",
        "UPDATE penstock_jobs SET life = life + 1",
    ],
)
async def test_an_altered_row_is_corrupt_and_nothing_is_done_with_it(
    queue: Queue, path: Path, change: str
) -> None:
    await queue.enqueue("work", id="job")
    with connected(path) as connection:
        connection.execute(change)
        before = connection.execute("SELECT * FROM penstock_jobs").fetchall()
    with pytest.raises(Corrupt):
        await queue.get("job")
    with pytest.raises(Corrupt):
        await queue.cancel("job")
    with connected(path) as connection:
        assert connection.execute("SELECT * FROM penstock_jobs").fetchall() == before


async def test_altered_events_and_an_altered_charter_are_corrupt(path: Path) -> None:
    url = f"sqlite://{path}"
    async with penstock.open(url) as queue:
        id = await completed(queue)
        await queue.pause()
        with connected(path) as connection:
            cut = "CAST(substr(events, 1, length(events) - 3) AS BLOB)"
            connection.execute(f"UPDATE penstock_commits SET events = {cut}")
        with pytest.raises(Corrupt):
            await queue.history(id)
    with connected(path) as connection:
        connection.execute(f"UPDATE penstock_head SET charter = {_without('charter', 'default')}")
    with pytest.raises(Corrupt):
        async with penstock.open(url):
            pass


def _without(column: str, word: str) -> str:
    return f"CAST(replace({column}, '{word}', '') AS BLOB)"


async def test_a_slip_in_an_editor_is_refused(queue: Queue, path: Path) -> None:
    await queue.enqueue("work", id="job")
    with connected(path) as connection, pytest.raises(sqlite3.IntegrityError, match="BLOB"):
        connection.execute("UPDATE penstock_jobs SET body = 'text'")


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"dear diary, " * 1_000)
    with pytest.raises(Corrupt), penstock.open_sync(f"sqlite://{path}"):
        pass
    assert path.read_bytes().startswith(b"dear diary")


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidURL, match="it is a folder"):
        async with penstock.open(f"sqlite://{tmp_path}"):
            pass


async def test_the_tables_of_an_application_are_left_alone(path: Path) -> None:
    with connected(path) as connection:
        connection.execute("CREATE TABLE jobs (title TEXT)")
        connection.execute("INSERT INTO jobs VALUES ('plumber')")
    async with penstock.open(f"sqlite://{path}") as queue:
        await completed(queue)
    with connected(path) as connection:
        assert connection.execute("SELECT title FROM jobs").fetchall() == [("plumber",)]


async def test_every_lookup_goes_by_an_index(queue: Queue, path: Path) -> None:
    await queue.enqueue_many([NewJob("work", queue=f"q{n % 3}") for n in range(BACKLOG)])
    with connected(path) as connection:
        for file in FILES:
            for name, statement in statements(PACKAGE, file).items():
                if name in WHOLE_TABLES:
                    continue
                named = dict.fromkeys(re.findall(r":([a-z_]+)", statement), 0)
                given = named or [0] * statement.count("?")
                plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
                assert not [step for *_, step in plan if step.startswith("SCAN penstock_")], name


async def test_stats_cost_the_same_whatever_the_depth(queue: Queue, path: Path) -> None:
    """What is due and what is not, as far as it is due in the same few minutes."""
    steps: list[int] = []
    for depth in (60, BACKLOG):
        delays = (0.0, 200.0, 4_000.0)
        await queue.enqueue_many(
            [NewJob("work", delay_seconds=delays[n % 3]) for n in range(depth)]
        )
        steps.append(_steps(path, ("counts", "waiting")))
    assert steps[1] <= steps[0] + 60, steps


def _steps(path: Path, names: Sequence[str]) -> int:
    with connected(path) as connection:
        taken = 0

        def step() -> None:
            nonlocal taken
            taken += 1

        connection.set_progress_handler(step, 1)
        for name in names:
            statement = statements(PACKAGE, "finding.sql")[name]
            given = {**dict.fromkeys(re.findall(r":([a-z_]+)", statement), 5), "tenant": "default"}
            connection.execute(statement, given).fetchall()
        return taken


async def test_a_claim_finds_what_is_due_behind_more_urgent_jobs_that_are_not(
    queue: Queue,
) -> None:
    await queue.enqueue_many([NewJob("work", priority=-1, delay_seconds=3_600)] * BACKLOG)
    await queue.enqueue("work", id="due")
    assert (await claim_one(queue)).id == "due"


async def test_what_has_lapsed_leaves_the_tables_with_later_writes(path: Path) -> None:
    async with penstock.open(f"sqlite://{path}?fsync=off", result_ttl_seconds=0) as queue:
        await completed(queue, key="k", id="first")
        await queue.configure(result_ttl_seconds=3_600)
        kept = await completed(queue, key="k", id="second", unique_seconds=0.001)
        await queue.enqueue("work", id="later")
        assert (await found(queue, kept)).state is State.COMPLETED
    with connected(path) as connection:
        lived = connection.execute("SELECT id FROM penstock_jobs ORDER BY life").fetchall()
        departed = connection.execute("SELECT id FROM penstock_departures").fetchall()
        holds = connection.execute("SELECT count(*) FROM penstock_holds").fetchone()
    assert (lived, departed, holds) == ([("second",), ("later",)], [("first",)], (0,))
