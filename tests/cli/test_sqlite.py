"""The command line on a queue in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import penstock
from penstock.client.blocking import BlockingQueue
from tests.cli.running import Penstock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def run(path: Path) -> Penstock:
    return Penstock(f"sqlite://{path}")


@pytest.fixture
def queue(run: Penstock) -> Iterator[BlockingQueue]:
    with penstock.open_sync(run.url) as queue:
        yield queue


def test_looking_at_a_file_that_is_not_there_makes_none(run: Penstock, path: Path) -> None:
    ran = run("stats")
    assert ran.code != 0
    assert "there is no queue" in ran.stderr
    assert not path.exists()


@pytest.mark.parametrize("command", [["stats"], ["enqueue", "add", "1"]])
def test_a_folder_is_said_to_be_one(run: Penstock, path: Path, command: list[str]) -> None:
    path.mkdir()
    ran = run(*command)
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)
    assert "it is a folder; name a file" in ran.stderr


def test_jobs_go_in_and_are_seen(run: Penstock) -> None:
    id = run("enqueue", "resize", '{"n": 1}').stdout.strip()
    assert run("status", id, "--json").object["payload"] == {"n": 1}
    assert run("stats", "--json").object["totals"]["pending"] == 1
    assert run("cancel", id).code == 0
    assert [line["event"] for line in run("history", id, "--json").lines] == [
        "enqueued",
        "cancelled",
    ]


def test_doctor_finds_a_sound_queue_sound(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue_many([penstock.NewJob("work") for _ in range(5)])
    queue.ack(queue.claim(2), "done")
    checks = {line["check"]: line["verdict"] for line in run("doctor", "--json").lines}
    assert set(checks.values()) == {"ok"}
    assert "records follow from events" in checks


def test_doctor_finds_a_record_that_is_gone(
    run: Penstock, queue: BlockingQueue, path: Path
) -> None:
    queue.enqueue("work", id="lost")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM penstock_jobs")
    ran = run("doctor", "--json")
    failed = [line for line in ran.lines if line["verdict"] == "fail"]
    assert ran.code == 1
    assert [line["check"] for line in failed] == [
        "counters follow from records",
        "records follow from events",
    ]
    assert "lost" in failed[1]["detail"]


def test_doctor_finds_a_counter_that_is_wrong(
    run: Penstock, queue: BlockingQueue, path: Path
) -> None:
    queue.enqueue("work")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE penstock_counts SET now = now + 1")
    failed = [line for line in run("doctor", "--json").lines if line["verdict"] == "fail"]
    assert [line["check"] for line in failed] == ["counters follow from records"]
    assert "default/work pending: 2, 1 are there" in failed[0]["detail"]


def test_a_quick_check_up_leaves_the_records_alone(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue("work")
    check = run("doctor", "--quick", "--json").object
    assert (check["area"], check["check"], check["verdict"]) == ("store", "reachable", "ok")


def test_doctor_says_when_there_is_nothing_to_examine(run: Penstock) -> None:
    assert "there is no queue at" in run("doctor").stderr
    assert run("doctor", "--probe", "--json").object["verdict"] == "warn"


def test_a_benchmark_leaves_nothing_behind(run: Penstock, path: Path) -> None:
    phases = run("bench", "--jobs", "20", "--json").lines
    assert [phase["phase"] for phase in phases] == ["enqueue", "claim", "ack"]
    assert list(path.parent.iterdir()) == []
