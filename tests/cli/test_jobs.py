"""Commands about jobs that are there: what they show and how they end."""

from __future__ import annotations

import pytest

from penstock.client.blocking import BlockingQueue
from tests.cli.running import Penstock


def test_status_shows_a_job_with_its_errors(run: Penstock, failed_id: str) -> None:
    ran = run("status", failed_id)
    assert ran.code == 0
    for words in (failed_id, "images", "failed", '{"id":7}', "the disk is on fire"):
        assert words in ran.stdout


def test_status_as_json_is_the_whole_job_without_its_lease(
    run: Penstock, queue: BlockingQueue, failed_id: str
) -> None:
    job = run("status", failed_id, "--json").object
    assert (job["state"], job["attempt"], job["payload"]) == ("failed", 1, {"id": 7})
    assert job["errors"][0]["message"] == "the disk is on fire"
    assert job["retry"]["multiplier"] == 2.0
    queue.enqueue("other", 1, id="held")
    [held] = queue.claim(1)
    shown = run("status", "held", "--json")
    assert shown.object["state"] == "running"
    assert held.lease.secret not in shown.stdout


@pytest.mark.parametrize("command", ["status", "history"])
def test_a_job_that_is_not_there_is_not_found(
    run: Penstock, queue: BlockingQueue, command: str
) -> None:
    ran = run(command, "nobody")
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: no job 'nobody'")


def test_history_tells_what_happened_in_order(run: Penstock, failed_id: str) -> None:
    ran = run("history", failed_id)
    rows = [line.split()[3] for line in ran.stdout.splitlines()[2:]]
    assert rows == ["enqueued", "claimed", "failed"]
    assert "by w1" in ran.stdout
    events = run("history", failed_id, "--json").lines
    assert [event["event"] for event in events] == ["enqueued", "claimed", "failed"]
    assert "operation" not in events[1]  # the lease's secret


def test_list_filters_and_limits(run: Penstock, queue: BlockingQueue, failed_id: str) -> None:
    for number in range(3):
        queue.enqueue("add", number, id=f"add-{number}")
    queue.enqueue("add", 3, id="later", delay_seconds=3600)

    def ids(*arguments: str) -> list[str]:
        return [job["id"] for job in run("list", "--json", *arguments).lines]

    assert ids() == [failed_id, "add-0", "add-1", "add-2", "later"]
    assert ids("--state", "failed") == [failed_id]
    assert ids("--state", "scheduled") == ["later"]
    assert ids("--state", "retrying") == []
    assert ids("--queue", "images") == [failed_id]
    assert ids("--type", "add", "--limit", "2") == ["add-0", "add-1"]
    shown = run("list", "--limit", "2")
    assert failed_id in shown.stdout
    assert "--limit" in shown.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_an_id_is_never_cut(run: Penstock, failed_id: str, columns: int) -> None:
    shown = run("list", columns=columns).stdout
    assert failed_id in shown
    assert max(map(len, shown.splitlines())) <= columns


def test_what_a_job_says_is_not_taken_for_markup(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue("[red]type", 1)
    assert "[red]type" in run("list", "--queue", "default").stdout


def test_a_state_that_does_not_exist_lists_those_that_do(run: Penstock) -> None:
    ran = run("list", "--state", "sleeping")
    assert ran.code == 2
    assert "scheduled" in ran.stderr


def test_cancel_says_of_each_what_became_of_it(
    run: Penstock, queue: BlockingQueue, failed_id: str
) -> None:
    queue.enqueue("add", 1, id="a")
    ran = run("cancel", "a", failed_id, "nobody")
    assert ran.code == 1
    assert [line.split()[-1] for line in ran.stdout.splitlines()[2:]] == [
        "cancelled",
        "failed",
        "not_found",
    ]
    assert run("cancel", "a", "--json").object == {"id": "a", "outcome": "cancelled", "ok": True}


def test_ids_may_come_from_stdin(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue("add", 1, id="a")
    queue.enqueue("add", 1, id="b")
    ran = run("cancel", "-", "--json", input="a\nb\n")
    assert [line["id"] for line in ran.lines] == ["a", "b"]
    assert ran.code == 0


def test_replay_opens_a_failed_job_again(
    run: Penstock, queue: BlockingQueue, failed_id: str
) -> None:
    ran = run("replay", failed_id)
    assert (ran.code, "replayed" in ran.stdout) == (0, True)
    assert queue.get(failed_id).state == "pending"
    [job] = queue.claim(1)
    queue.ack(job)
    again = run("replay", failed_id, "--json")
    assert again.code == 1
    assert again.object["ok"] is False
    assert "it is completed" in again.object["outcome"]


def test_replay_by_filter_asks_first(run: Penstock, queue: BlockingQueue, failed_id: str) -> None:
    refused = run("replay", "--queue", "images", input="n\n")
    assert refused.code == 1
    assert "replay 1 failed jobs?" in refused.stderr
    assert queue.get(failed_id).state == "failed"
    assert run("replay", "--type", "nothing", "--yes").stdout == "no failed jobs to replay\n"
    assert run("replay", "--all-failed", "--yes", "--json").object["ok"] is True
    assert queue.get(failed_id).state == "pending"


def test_replay_wants_ids_or_a_filter_and_not_both(run: Penstock, failed_id: str) -> None:
    assert run("replay").code == 2
    assert run("replay", failed_id, "--all-failed").code == 2


def test_an_archived_job_is_out_of_sight_until_it_is_unarchived(
    run: Penstock, failed_id: str
) -> None:
    assert "archived" in run("archive", failed_id).stdout
    assert run("list", "--json").lines == []
    assert [job["id"] for job in run("list", "--archived", "--json").lines] == [failed_id]
    assert run("unarchive", failed_id, "--json").object["outcome"] == "unarchived"
    assert [job["id"] for job in run("list", "--json").lines] == [failed_id]
    assert run("archive", failed_id, "--json").object["outcome"] == "archived"
    assert "unarchived" in run("unarchive", failed_id).stdout
    assert run("archive", "nobody").code == 1


def test_a_paused_queue_gives_out_nothing(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue("add", 1, queue="images")
    assert run("pause", "images").stdout == "images is paused\n"
    assert queue.claim(1) == []
    assert run("resume", "images").stdout == "images is not paused\n"
    assert len(queue.claim(1)) == 1
    assert run("pause", "--json").object == {"queue": "default", "paused": True}
    assert run("resume", "--json").object == {"queue": "default", "paused": False}


def test_tenants_do_not_see_each_other(run: Penstock) -> None:
    run("enqueue", "add", "1", "--id", "a", "--tenant", "acme")
    assert run("status", "a", "--tenant", "acme").code == 0
    assert run("status", "a").code == 1
