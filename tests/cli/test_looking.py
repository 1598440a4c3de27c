"""Counts, live views and events."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.blocking import BlockingQueue
from penstock.ports.backend import WorkerRecord
from tests.cli.running import Penstock


def test_stats_as_json_is_one_object_with_every_state(
    run: Penstock, queue: BlockingQueue, failed_id: str
) -> None:
    queue.enqueue("add", 1)
    queue.enqueue("add", 1, delay_seconds=3600)
    [done] = queue.claim(1)
    queue.ack(done)
    stats = run("stats", "--json").object
    assert stats["totals"] == {
        "blocked": 0, "pending": 1, "running": 0, "completed": 1, "failed": 1, "cancelled": 0,
    }  # fmt: skip
    by_name = {queue["queue"]: queue for queue in stats["queues"]}
    assert by_name["default"]["scheduled"] == 1
    assert by_name["images"]["totals"]["failed"] == 1


@pytest.mark.parametrize("columns", [80, 120])
def test_stats_fit_the_terminal(
    run: Penstock, queue: BlockingQueue, failed_id: str, columns: int
) -> None:
    queue.enqueue("add", 1)
    shown = run("stats", columns=columns).stdout.splitlines()
    assert [line.split()[0] for line in shown if line.strip()][2:5] == ["default", "images", "all"]
    total = next(line for line in shown if line.startswith("all"))
    assert total.split()[-1] == "2"
    assert max(map(len, shown)) <= columns


def test_a_paused_queue_is_called_so(run: Penstock, queue: BlockingQueue) -> None:
    queue.pause("images")
    shown = run("stats", columns=80).stdout
    assert "‖ images" in shown
    assert "‖ paused" in shown
    assert "‖ images" in run("top", "--once", "--interval", "0.1").stdout


def test_looking_does_not_make_a_queue(run: Penstock, url: str) -> None:
    for command in ("stats", "list", "workers", "events", "top"):
        ran = run(command)
        assert ran.code == 1
        assert "there is no queue at" in ran.stderr
    assert not Path(url).exists()


def test_top_shows_one_frame(run: Penstock, queue: BlockingQueue, failed_id: str) -> None:
    queue.register(worker("w1"))
    shown = run("top", "--once", "--interval", "0.1").stdout
    for words in ("tenant default", "1 failed", "images", "in/s", "w1", "2/8"):
        assert words in shown
    frame = run("top", "--once", "--json", "--interval", "0.1").object
    assert frame["queues"][0]["queue"] == "images"
    assert frame["rates"] == {"enqueued": 0.0, "completed": 0.0, "failed": 0.0}
    assert frame["workers"][0]["id"] == "w1"


def test_top_without_end_is_ended_by_a_signal(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    with run.start("top", "--json", "--interval", "0.1", folder=folder) as top:
        top.until('"rates"')
        top.send(signal.SIGINT)
        assert top.ended() == 0


def test_top_on_a_terminal_ends_with_q(run: Penstock, queue: BlockingQueue, folder: Path) -> None:
    queue.enqueue("add", 1, queue="images")
    controller, terminal = pty.openpty()
    top = subprocess.Popen(
        [sys.executable, "-m", "penstock", "top", "--interval", "0.1"],
        env={**os.environ, "PENSTOCK_URL": run.url, "TERM": "xterm", "COLUMNS": "100"},
        stdin=terminal, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    try:
        shown = b""
        while b"q quits" not in shown:
            shown += os.read(controller, 4096)
        assert b"images" in shown
        os.write(controller, b"q")
        assert ended(top, controller) == 0
    finally:
        top.kill()
        top.wait()
        os.close(controller)


def ended(process: subprocess.Popen[bytes], controller: int) -> int:
    """The exit code of a process whose terminal has to be read until it hangs up."""
    while True:
        try:
            if not os.read(controller, 4096):
                break
        except OSError:  # what Linux says when the other side is closed
            break
    return process.wait()


def test_workers_are_listed_and_the_silent_ones_called_so(
    run: Penstock, queue: BlockingQueue
) -> None:
    assert run("workers").stdout == "no worker has registered\n"
    queue.register(worker("w1"))
    assert "silent" in run("workers").stdout
    record = run("workers", "--json").object
    assert (record["id"], record["running"]) == ("w1", ["a", "b"])
    assert run("workers", "--tenant", "other", "--json").lines == []


def test_events_from_the_beginning_end_where_they_are_told_to(
    run: Penstock, failed_id: str
) -> None:
    ran = run("events", "--since", "beginning", "--no-follow")
    assert [line.split()[1] for line in ran.stdout.splitlines()] == [
        "enqueued", "claimed", "failed",
    ]  # fmt: skip
    events = run("events", "--since", "beginning", "--limit", "2", "--json").lines
    assert [event["event"] for event in events] == ["enqueued", "claimed"]
    rest = run("events", "--since", str(events[1]["position"]), "--no-follow", "--json").object
    assert rest["event"] == "failed"
    assert run("events", "--no-follow").stdout == ""


def test_events_follow_until_they_are_interrupted(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("add", 1, id="first")
    with run.start("events", "--since", "beginning", folder=folder) as events:
        events.until("first")
        queue.enqueue("add", 1, id="second")
        events.until("second")
        events.send(signal.SIGINT)
        assert events.ended() == 0


def test_a_position_that_is_none_is_wrong_usage(run: Penstock, queue: BlockingQueue) -> None:
    ran = run("events", "--since", "yesterday")
    assert (ran.code, "beginning" in ran.stderr) == (2, True)


def worker(id: str) -> WorkerRecord:
    return WorkerRecord(
        id=id, host="h", pid=1, tenant="default", queues=None, concurrency=8, started_at=0.0,
        seen_at=0.0, state="running", running=["a", "b"], counters={"completed": 3},
        busy=2,
    )  # fmt: skip


def test_stats_say_how_large_the_queue_is_and_how_fast_it_goes(
    run: Penstock, queue: BlockingQueue
) -> None:
    queue.enqueue("work")
    seen = run("stats", "--rates", "0.01", "--json").object
    assert seen["state_bytes"] > 0
    assert seen["rates"] == {"enqueued": 0.0, "completed": 0.0, "failed": 0.0}
    shown = run("stats", "--rates", "0.01").stdout
    assert "a second: 0.0 enqueued" in shown
    assert "1 job is kept, in" in shown


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_nobody_watches_for_a_time_that_is_none(run: Penstock, seconds: str) -> None:
    for command in (["stats", "--rates"], ["top", "--once", "--interval"]):
        ran = run(*command, seconds)
        assert ran.code == 2
        assert "Invalid value" in ran.stderr
