"""`penstock migrate`."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.client.blocking import BlockingQueue
from tests.cli.running import Penstock, got
from tests.servers.postgres import Postgres


@pytest.fixture
def target(folder: Path) -> str:
    return f"sqlite://{folder}/target.db"


def test_a_queue_moves_and_its_old_address_says_where_to(
    run: Penstock, queue: BlockingQueue, failed_id: str, target: str
) -> None:
    queue.enqueue("add", {"a": 1}, id="a", queue="mail")
    ran = run("migrate", run.url, target)
    assert (ran.code, ran.stderr) == (0, "")
    assert "moved: 2 jobs from" in ran.stdout
    assert "counts and content agree" in ran.stdout
    late = run("enqueue", "add", "1")
    assert late.code == 1
    assert f"this queue has moved to {target}" in late.stderr
    there = Penstock(target)
    assert there("status", "a", "--json").object["payload"] == {"a": 1}
    assert there("status", failed_id, "--json").object["state"] == "failed"
    again = run("migrate", run.url, target)
    assert (again.code, "was moved before: 2 jobs" in again.stdout) == (0, True)


def test_a_job_whose_large_payload_is_gone_moves_as_it_is(folder: Path, target: str) -> None:
    run, there = Penstock(f"{folder}/large"), Penstock(target)
    with penstock.open_sync(run.url, offload=True) as queue:
        queue.enqueue("large", "x" * 300_000, id="gone")
        queue.enqueue("large", "y" * 300_000, id="there")
        gone = got(queue, "gone").payload_key
    assert gone is not None
    (folder / "large" / gone).unlink()
    ran = run("migrate", run.url, target)
    assert ran.code == 0, ran.stderr
    assert "1 of them without a large payload or result, which was gone" in ran.stdout
    shown = there("status", "gone", "--json").object["payload"]
    assert (shown["kind"], shown["size_bytes"]) == ("undecodable", 300_002)
    assert "is gone" in shown["reason"]
    assert there("status", "there", "--json").object["payload"] == "y" * 300_000


def test_a_dry_run_makes_nothing(run: Penstock, queue: BlockingQueue, target: str) -> None:
    queue.enqueue("add", id="a", queue="mail")
    report = run("migrate", run.url, target, "--dry-run", "--json").object
    assert (report["status"], report["jobs"]) == ("would move", 1)
    assert report["counts"] == [
        {"tenant": "default", "queue": "mail", "state": "pending", "jobs": 1}
    ]
    assert not Path(target.removeprefix("sqlite://")).exists()
    queue.enqueue("add", id="b")


def test_what_is_in_the_way_is_named_and_nothing_is_moved(
    run: Penstock, queue: BlockingQueue, target: str
) -> None:
    queue.enqueue("add", id="a")
    with penstock.open_sync(target) as there:
        there.enqueue("add", id="a")
    preview = run("migrate", run.url, target, "--dry-run")
    assert preview.code == 1
    assert "in the way: job 'a' of 'default', which is pending there" in preview.stderr
    ran = run("migrate", run.url, target)
    assert ran.code == 1
    assert "the target has 1 of its own in the way: job 'a'" in ran.stderr
    queue.enqueue("add", id="b")


def test_addresses_that_make_no_sense_are_wrong_usage(
    run: Penstock, queue: BlockingQueue, target: str
) -> None:
    queue.enqueue("add")
    for other, reason in (
        (run.url, "the same address"),
        ("memory://m", "would be lost"),
        (f"{target}?result_ttl_seconds=5", "settings come along"),
    ):
        ran = run("migrate", run.url, other)
        assert (ran.code, reason in ran.stderr) == (2, True)
    nowhere = run("migrate", "file:///nowhere/at/all", target)
    assert (nowhere.code, "there is no queue at" in nowhere.stderr) == (1, True)


def test_there_may_be_nothing_to_abort(run: Penstock, queue: BlockingQueue, target: str) -> None:
    queue.enqueue("add")
    with penstock.open_sync(target) as there:
        there.enqueue("add")
    assert run("migrate", run.url, target, "--abort").stdout == "nothing to abort\n"
    run("migrate", run.url, target)
    finished = run("migrate", run.url, target, "--abort")
    assert (finished.code, "can't be aborted any more" in finished.stderr) == (1, True)


def test_a_queue_that_has_moved_does_not_tell_the_password(
    run: Penstock, queue: BlockingQueue, postgres_server: Postgres
) -> None:
    queue.enqueue("add", {"a": 1})
    # The server lets everybody in, whatever they say.
    target = postgres_server.new_database().replace("postgres@", "postgres:swordfish@")
    moved = run("migrate", run.url, target, "--json")
    late = run("enqueue", "add", "1")
    assert (moved.code, late.code) == (0, 1)
    assert "this queue has moved to postgresql://" in late.stderr
    assert "swordfish" not in moved.stdout + moved.stderr + late.stderr
