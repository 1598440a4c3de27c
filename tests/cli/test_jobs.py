"""Commands about jobs that are there: what they show and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock import NewJob
from penstock.client.blocking import BlockingQueue
from tests.cli.running import Penstock, got


def test_status_shows_a_job_with_its_errors(run: Penstock, failed_id: str) -> None:
    ran = run("status", failed_id)
    assert ran.code == 0
    for words in (failed_id, "images", "failed", '{"id":7}', "the disk is on fire"):
        assert words in ran.stdout


@pytest.mark.parametrize("command", ["status", "history"])
def test_tracebacks_are_shown(run: Penstock, queue: BlockingQueue, command: str) -> None:
    queue.enqueue("resize", id="a")
    [job] = queue.claim(1)
    queue.nack(job, "boom", retry=False, traceback="File tasks.py, line 7\nOSError: boom")
    shown = run(command, "a").stdout
    assert "attempt 1:" in shown
    assert "File tasks.py, line 7\nOSError: boom" in shown
    assert "line 7" in run(command, "a", "--json").stdout


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
    assert held.lease is not None
    assert held.lease.secret not in shown.stdout


def test_status_shows_the_beginning_of_a_long_value_and_how_to_see_it_all(
    run: Penstock, queue: BlockingQueue
) -> None:
    queue.enqueue("resize", "x" * 200_000, id="long")
    [job] = queue.claim(1)
    queue.ack(job, ["y" * 2_000])
    shown = run("status", "long").stdout
    assert len(shown) < 5_000
    for words in ("… (200,002 bytes in all; --full shows it whole", "… (2,004 bytes in all"):
        assert words in " ".join(shown.split())
    assert run("status", "long", "--full").stdout.count("x") >= 200_000
    assert run("status", "long", "--json").object["payload"] == "x" * 200_000


def test_json_tells_the_life_of_a_job_and_where_a_list_goes_on(
    run: Penstock, queue: BlockingQueue
) -> None:
    lives = [queue.enqueue("add", number, id=f"job-{number}").life for number in range(3)]
    assert run("status", "job-1", "--json").object["life"] == lives[1]
    first = run("list", "--limit", "2", "--json").lines
    rest = run("list", "--after", first[-1]["cursor"], "--json").lines
    assert [job["life"] for job in first + rest] == lives
    assert "cursor" not in run("list", "--sort", "priority", "--limit", "1", "--json").object


def test_a_later_page_of_a_list_is_not_called_the_first(
    run: Penstock, queue: BlockingQueue
) -> None:
    queue.enqueue_many([NewJob("add", number) for number in range(5)])
    first = run("list", "--limit", "2").stderr
    assert first.startswith("these are the first 2, and there are more")
    cursor = first.partition("--after ")[2].partition(" ")[0]
    later = run("list", "--limit", "2", "--after", cursor).stderr
    assert later.startswith("these are the next 2, and there are more")
    cursor = later.partition("--after ")[2].partition(" ")[0]
    assert run("list", "--limit", "2", "--after", cursor).stderr == ""


@pytest.mark.parametrize("command", ["status", "history"])
def test_a_job_that_is_not_there_is_not_found(
    run: Penstock, queue: BlockingQueue, command: str
) -> None:
    ran = run(command, "nobody")
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: no job 'nobody'")


def test_history_tells_what_happened_in_order(run: Penstock, failed_id: str) -> None:
    ran = run("history", failed_id)
    rows = [line.split()[3] for line in ran.stdout.splitlines()[2:-1]]
    assert rows == ["enqueued", "claimed", "failed"]
    assert "by w1" in ran.stdout
    events = run("history", failed_id, "--json").lines
    assert [event["event"] for event in events] == ["enqueued", "claimed", "failed"]
    assert "operation" not in events[1]  # the lease's secret


def test_history_says_which_lives_an_id_has_had(run: Penstock, queue: BlockingQueue) -> None:
    lives = []
    for attempt in range(2):
        lives.append(queue.enqueue("add", attempt, id="a").life)
        assert "not the first" not in run("status", "a").stdout or attempt
        queue.cancel("a")
    assert f"{lives[1]}; it is not the first" in run("status", "a", columns=200).stdout
    assert run("history", "a").stdout.endswith(f"life {lives[1]}\n")
    shown = run("history", "a", "--lives").stdout.splitlines()[2:]
    assert [line.split()[0] for line in shown] == [str(life) for life in lives]
    told = run("history", "a", "--lives", "--json").lines
    assert [(each["life"], each["last_event"]) for each in told] == [
        (life, "cancelled") for life in lives
    ]
    assert run("history", "a", "--life", str(lives[0])).stdout.endswith(f"life {lives[0]}\n")


def test_a_life_that_never_was_is_not_taken_for_a_job_that_has_left(
    run: Penstock, queue: BlockingQueue
) -> None:
    life = queue.enqueue("add", 1, id="a").life
    ran = run("history", "a", "--life", "1")
    assert (ran.code, ran.stdout) == (1, "")
    assert "job 'a' has no life 1" in ran.stderr
    assert f"known are {life}" in ran.stderr
    for arguments in (["--life", "1"], ["--lives"]):
        assert "no job 'nobody'" in run("history", "nobody", *arguments).stderr


def test_an_empty_list_says_so(run: Penstock, queue: BlockingQueue) -> None:
    assert run("list").stdout == "no jobs\n"
    assert run("list", "--json").stdout == ""


def test_status_says_how_many_failures_there_may_be(run: Penstock, failed_id: str) -> None:
    assert "1 (1 of at most 4 failures)" in run("status", failed_id).stdout


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
def test_an_id_is_whole_at_the_width_of_a_terminal(
    run: Penstock, failed_id: str, columns: int
) -> None:
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
    cancelled, failed, unknown = ran.stdout.splitlines()[2:5]
    assert cancelled.split() == ["a", "cancelled"]
    assert "it is failed" in failed
    assert "no job 'nobody' for this tenant" in unknown
    assert run("cancel", "nobody", "--json").object["outcome"] == "not_found"
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
    assert got(queue, failed_id).state == "pending"
    [job] = queue.claim(1)
    queue.ack(job)
    again = run("replay", failed_id, "--json")
    assert again.code == 1
    assert again.object["ok"] is False
    assert "it is completed" in again.object["outcome"]


def test_replay_says_of_a_job_that_waits_or_runs_that_it_did_nothing(
    run: Penstock, queue: BlockingQueue, failed_id: str
) -> None:
    queue.enqueue("add", 1, id="runs")
    [running] = queue.claim(1)
    queue.enqueue("add", 1, id="waits")
    said = run("replay", "waits", running.id, failed_id)
    assert said.code == 0
    waits, runs, failed = said.stdout.splitlines()[2:5]
    assert waits.split(maxsplit=1)[1] == "is pending already; nothing was replayed"
    assert runs.split(maxsplit=1)[1] == "is running already; nothing was replayed"
    assert failed.split() == [failed_id, "replayed"]
    outcomes = run("replay", "waits", "runs", failed_id, "--json").lines
    assert [line["outcome"] for line in outcomes] == ["pending", "running", "pending"]
    assert all(line["ok"] for line in outcomes)


def test_an_id_is_whole_beside_what_became_of_it(run: Penstock, queue: BlockingQueue) -> None:
    id = "an-id-of-my-own-" * 7
    shown = run("cancel", id, "nobody", columns=80).stdout.splitlines()
    assert max(map(len, shown)) <= 80
    assert id in "".join(line[:56].rstrip() for line in shown[2:])
    for words in (f"no job {id!r}", "it may have left after its retention"):
        outcomes = "".join(line[58:].rstrip() for line in shown[2:])
        assert words.replace(" ", "") in outcomes.replace(" ", ""), "nothing of it is cut"
    short = run("cancel", "nobody", columns=80).stdout.splitlines()
    assert short[2].startswith("nobody  no job 'nobody'")


def test_replay_by_filter_asks_first(run: Penstock, queue: BlockingQueue, failed_id: str) -> None:
    refused = run("replay", "--queue", "images", input="n\n")
    assert refused.code == 1
    assert "replay 1 failed job?" in refused.stderr
    assert got(queue, failed_id).state == "failed"
    assert run("replay", "--type", "nothing", "--yes").stdout == "no failed jobs to replay\n"
    assert run("replay", "--all-failed", "--yes", "--json").object["ok"] is True
    assert got(queue, failed_id).state == "pending"


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
    assert run("resume", "images").stdout == "images is resumed\n"
    assert len(queue.claim(1)) == 1
    assert run("pause", "--json").object == {"queue": "default", "paused": True}
    assert run("resume", "--json").object == {"queue": "default", "paused": False}


def test_tenants_do_not_see_each_other(run: Penstock) -> None:
    run("enqueue", "add", "1", "--id", "a", "--tenant", "acme")
    assert run("status", "a", "--tenant", "acme").code == 0
    assert run("status", "a").code == 1


def test_list_sorts_by_what_moved_last(run: Penstock, queue: BlockingQueue) -> None:
    older, newer = queue.enqueue("a").id, queue.enqueue("b").id
    [job] = queue.claim(types=["a"])
    queue.release(job)
    assert [line["id"] for line in run("list", "--json").lines] == [older, newer]
    by_update = run("list", "--sort", "updated_at", "--json").lines
    assert [line["id"] for line in by_update] == [older, newer]
    assert by_update[0]["updated_at"] > by_update[1]["updated_at"]
    queue.enqueue("c", priority=-5)
    assert run("list", "--sort", "priority", "--limit", "1", "--json").object["type"] == "c"


def test_list_picks_by_attempts_and_shard(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue_many([NewJob("t") for _ in range(40)])
    queue.release(queue.claim(3))
    assert len(run("list", "--attempts-min", "1", "--json").lines) == 3
    halves = [run("list", "--shard", half, "--json").lines for half in ("0-7", "8-f")]
    assert sum(map(len, halves)) == 40
    assert all(halves)
    wrong = run("list", "--shard", "x")
    assert wrong.code != 0
    assert "hex digits" in wrong.stderr


class Reversed:
    name = "reversed"

    def encode(self, value: str) -> bytes:
        return value.encode()[::-1]

    def decode(self, data: bytes) -> str:
        return data[::-1].decode()


def test_a_payload_that_cannot_be_decoded_is_shown_for_what_it_is(run: Penstock) -> None:
    with penstock.open_sync(run.url, codecs=[Reversed()]) as queue:
        queue.enqueue("odd", "abc", id="odd", codec="reversed")
        queue.enqueue("even", {"n": 2})
    shown = run("status", "odd", "--json").object["payload"]
    assert (shown["kind"], shown["codec"], shown["size_bytes"]) == ("undecodable", "reversed", 3)
    assert "no codec 'reversed' here" in shown["reason"]
    assert "no codec 'reversed' here" in run("status", "odd", columns=300).stdout
    assert next(iter(run("list", "--json").lines))["id"] == "odd"
    exported = run("export").lines
    assert [job["payload"] for job in exported] == [{**shown, "raw": "Y2Jh"}, {"n": 2}]
    assert exported[0]["undecodable"] == ["payload"]
    assert run("history", "odd", "--json").object["payload"] == shown
    told = run("history", "odd", columns=300).stdout
    assert "its payload (3 bytes) can't be decoded: no codec 'reversed' here" in told


def test_a_payload_that_cannot_be_decoded_survives_an_export_and_an_import(
    run: Penstock, folder: Path
) -> None:
    with penstock.open_sync(run.url, codecs=[Reversed()]) as queue:
        queue.enqueue("odd", "abc", id="odd", codec="reversed")
    there = Penstock(f"{folder}/there")
    ran = there("import", input=run("export").stdout)
    assert (ran.code, ran.stdout) == (
        0, "imported 1 job; 0 were there already, 0 lines skipped\n"
    )  # fmt: skip
    with penstock.open_sync(there.url, codecs=[Reversed()]) as queue:
        assert (got(queue, "odd").payload, got(queue, "odd").codec) == ("abc", "reversed")


def test_an_import_refuses_only_the_line_whose_payload_was_gone(folder: Path) -> None:
    run, there = Penstock(f"{folder}/here"), Penstock(f"{folder}/there")
    mimic = {"kind": "undecodable", "codec": "json", "size_bytes": None, "reason": "mine"}
    with penstock.open_sync(run.url, offload=True) as queue:
        queue.enqueue("large", "x" * 300_000, id="gone")
        queue.enqueue("small", mimic, id="small")
    for data in (folder / "here" / "data").rglob("*-*-*"):
        data.unlink()
    exported = run("export").stdout
    ran = there("import", input=exported)
    assert ran.code == 1
    assert "line 1 of stdin: the payload of gone was not there to be exported" in ran.stderr
    assert ran.stdout.startswith("imported 1 job; 0 were there already, 0 lines skipped, 1 refused")
    again = there("import", "--json", input=exported)
    assert again.object == {"imported": 0, "present": 1, "skipped": 0, "failed": 1}
    with penstock.open_sync(there.url) as queue:
        assert got(queue, "small").payload == mimic
        assert queue.get("gone") is None
