"""Jobs come in from arguments, from stdin and from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.client.blocking import BlockingQueue
from tests.cli.running import Penstock, got


def test_enqueue_prints_the_id_of_a_job_that_is_there(run: Penstock, queue: BlockingQueue) -> None:
    ran = run("enqueue", "resize", '{"id": 7}')
    assert ran.code == 0
    assert got(queue, ran.stdout.strip()).payload == {"id": 7}


def test_enqueue_answers_a_receipt_as_json(run: Penstock) -> None:
    receipt = run("enqueue", "resize", '{"id": 7}', "--id", "a", "--json").object
    assert receipt == {"id": "a", "status": "queued", "state": "pending", "result": None}
    assert run("enqueue", "resize", "1", "--id", "a", "--json").object["status"] == "duplicate"
    again = run("enqueue", "resize", "1", "--id", "a").stdout
    assert again == "a is pending already; nothing was enqueued\n"


def test_every_option_of_enqueue_reaches_the_job(run: Penstock, queue: BlockingQueue) -> None:
    ran = run(
        "enqueue", "resize", "[1]", "--queue", "images", "--id", "a", "--key", "k",
        "--unique-seconds", "60", "--priority", "-5", "--run-at", "2100-01-01T00:00",
        "--max-attempts", "2", "--retry", '{"initial_seconds": 5}', "--timeout-seconds", "9",
        "--meta", '{"team": "mail"}', "--trace", "t", "--codec", "msgpack",
    )  # fmt: skip
    assert ran.code == 0
    job = got(queue, "a")
    assert (job.payload, job.queue, job.key, job.priority, job.max_attempts) == (
        [1], "images", "k", -5, 2,
    )  # fmt: skip
    assert (job.retry.initial_seconds, job.timeout_seconds, job.meta, job.trace, job.codec) == (
        5.0, 9.0, {"team": "mail"}, "t", "msgpack",
    )  # fmt: skip
    assert job.run_at == 4102444800.0
    assert job.key_until is not None


def test_the_same_operation_again_adds_nothing(run: Penstock, queue: BlockingQueue) -> None:
    first, again = (run("enqueue", "add", "1", "--operation", "tuesday") for _ in range(2))
    id = first.stdout.strip()
    assert again.stdout == f"{id} is pending already; nothing was enqueued\n"
    queue.cancel(id)
    run("enqueue", "add", "1", "--operation", "tuesday")
    assert [(job.id, job.state.value) for job in queue.jobs()] == [(id, "cancelled")]


def test_the_same_operation_on_the_same_file_adds_nothing(
    run: Penstock, queue: BlockingQueue
) -> None:
    lines = "".join(f"{number}\n" for number in range(1_500))
    for said in ("1,500 queued\n", "1,500 duplicate\n"):
        ran = run("enqueue", "add", "--file", "-", "--operation", "tuesday", input=lines)
        assert ran.stdout == said
    assert queue.stats().totals["pending"] == 1_500


def test_the_time_of_an_attempt_is_kept_by_a_job_that_is_waited_for(
    run: Penstock, queue: BlockingQueue
) -> None:
    wait = ("--wait", "0.05", "--timeout-seconds", "9", "--operation", "tuesday")
    assert run("enqueue", "add", "1", *wait).code == 1
    assert run("enqueue", "add", "1", *wait).code == 1
    [job] = queue.jobs()
    assert job.timeout_seconds == 9.0


@pytest.mark.parametrize("argument", [["-"], []])
def test_the_payload_may_come_from_stdin(
    run: Penstock, queue: BlockingQueue, argument: list[str]
) -> None:
    id = run("enqueue", "resize", *argument, input='{"id": 8}\n').stdout.strip()
    assert got(queue, id).payload == {"id": 8}


def test_nothing_on_stdin_is_a_payload_of_null(run: Penstock, queue: BlockingQueue) -> None:
    id = run("enqueue", "resize", input="").stdout.strip()
    assert got(queue, id).payload is None


def test_bad_json_is_pointed_at(run: Penstock) -> None:
    ran = run("enqueue", "resize", '{"a": 1 "b"}')
    assert ran.code == 2
    first, shown, mark = ran.stderr.splitlines()
    assert "not JSON" in first
    assert "character 9" in first
    assert shown[mark.index("^")] == '"'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--meta", "[1]"], "--meta takes an object"),
        (["--retry", '{"initial": 5}'], "initial_seconds"),
        (["--run-at", "tomorrow"], "not a time"),
        (["--max-attempts", "0"], "max_attempts=0"),
        (["--queue", "a/b"], "queue='a/b'"),
        (["--codec", "xml"], "xml"),
    ],
)
def test_options_that_cannot_be_are_wrong_usage(
    run: Penstock, arguments: list[str], words: str
) -> None:
    ran = run("enqueue", "resize", "1", *arguments)
    assert ran.code == 2
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_of_jobs_is_enqueued(run: Penstock, queue: BlockingQueue, folder: Path) -> None:
    file = folder / "jobs.jsonl"
    jobs = [{"type": "resize", "payload": n, "id": f"job-{n}", "queue": "q"} for n in range(2_500)]
    file.write_text("\n".join(map(json.dumps, jobs)) + "\n\n")
    assert run("enqueue", "--file", str(file)).stdout == "2,500 queued\n"
    assert got(queue, "job-2499").payload == 2499
    assert [line["status"] for line in run("enqueue", "--file", str(file), "--json").lines] == [
        "duplicate"
    ] * 2_500


def test_with_a_type_the_lines_of_a_file_are_payloads(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    ran = run("enqueue", "resize", "--file", "-", "--priority", "3", input="1\n[2]\n")
    assert ran.stdout == "2 queued\n"
    assert [(job.type, job.payload, job.priority) for job in queue.jobs()] == [
        ("resize", 1, 3),
        ("resize", [2], 3),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"type": "a", "prioritty": 1}', "prioritty"),
        ('{"payload": 1}', "type"),
        ("7", "a job is an object"),
        ('{"type": "a", "max_attempts": 0}', "max_attempts=0"),
        ('{"type": "a"', "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_enqueued(
    run: Penstock, queue: BlockingQueue, line: str, words: str
) -> None:
    ran = run("enqueue", "--file", "-", input=f'{{"type": "fine"}}\n{line}\n')
    assert ran.code == 2
    assert "line 2 of stdin" in ran.stderr
    assert words in ran.stderr
    assert list(queue.jobs()) == []


def test_without_type_and_file_it_says_what_it_needs(run: Penstock) -> None:
    ran = run("enqueue")
    assert (ran.code, "TYPE" in ran.stderr) == (2, True)


def test_waiting_for_a_job_that_nobody_runs_fails(run: Penstock) -> None:
    ran = run("enqueue", "add", "1", "--wait", "0.05")
    assert ran.code == 1
    assert "had not ended" in ran.stderr


def test_a_file_that_is_not_there_is_one_line(run: Penstock, folder: Path) -> None:
    ran = run("enqueue", "--file", str(folder / "missing.jsonl"))
    assert ran.code == 1
    assert ran.stderr == f"error: {folder / 'missing.jsonl'}: No such file or directory\n"
