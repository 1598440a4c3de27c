"""`penstock worker` and `penstock monitor`, as real processes with real signals."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from penstock.cli.left_waiting import left_in
from penstock.client.blocking import BlockingQueue
from penstock.kernel.job import State
from penstock.ports.backend import QueueStats, Stats, TypeStats
from penstock.worker.serving import waiting_elsewhere
from tests.cli.running import Penstock, got


def test_a_burst_runs_what_is_there_and_ends(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    receipt = queue.enqueue("add", {"a": 1, "b": 2})
    with run.start("worker", "tasks:app", "--burst", folder=folder) as worker:
        assert worker.ended() == 0
    assert got(queue, receipt.id).result == 3
    said = "\n".join(worker.lines)
    for words in ("tasks:app", "add, brief, fail, hang", "tenant default", "1 completed"):
        assert words in said


def test_a_worker_says_as_json_how_it_starts_and_how_it_ended(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("fail")
    queue.enqueue("add", {"a": 1, "b": 2}, queue="other")
    arguments = ("worker", "tasks", "--burst", "--json", "--queue", "default", "-c", "3")
    with run.start(*arguments, "--no-monitor", "--name", "w1", folder=folder) as worker:
        assert worker.ended() == 0
    lines = [json.loads(line) for line in worker.lines]
    started = next(line for line in lines if line.get("event") == "started")
    assert (started["worker"], started["concurrency"], started["monitor"]) == ("w1", 3, False)
    assert started["queues"] == ["default"]
    assert lines[-1]["event"] == "stopped"
    assert (lines[-1]["claimed"], lines[-1]["failed"]) == (1, 1)
    assert lines[-1]["elsewhere"] == {"other": 1}


def test_a_worker_may_find_out_its_concurrency_by_itself(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("add", {"a": 1, "b": 2})
    arguments = ("worker", "tasks", "--burst", "--concurrency", "auto", "--concurrency-max", "200")
    with run.start(*arguments, folder=folder) as worker:
        assert worker.ended() == 0
    said = "\n".join(worker.lines)
    assert "8 to 200, as it finds best, at once" in said
    assert "1 completed" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--concurrency", "some"], "'some' is neither a number from 1 on nor auto"),
        (["--concurrency", "0"], "'0' is neither a number from 1 on nor auto"),
        (["-c", "auto", "--concurrency-min", "9", "--concurrency-max", "8"], "is more than"),
    ],
)
def test_a_concurrency_that_cannot_be_is_wrong_usage(
    run: Penstock, folder: Path, arguments: list[str], words: str
) -> None:
    with run.start("worker", "tasks", *arguments, folder=folder) as worker:
        assert worker.ended() == 2
    assert words in "\n".join(worker.lines)


def test_a_caller_can_wait_for_what_a_worker_makes(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    with run.start("worker", "tasks:app", folder=folder) as worker:
        worker.until("ends")
        assert run("enqueue", "add", '{"a": 1, "b": 2}', "--wait", "30").stdout == "3\n"
        answer = run("enqueue", "add", '{"a": 2, "b": 2}', "--wait", "30", "--json")
        assert answer.object == {"result": 4}
        failed = run("enqueue", "fail", "{}", "--wait", "30")
        assert failed.code == 1
        assert "it was never going to work" in failed.stderr
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_what_runs_finish(
    run: Penstock, queue: BlockingQueue, folder: Path, number: signal.Signals
) -> None:
    receipt = queue.enqueue("brief")
    with run.start("worker", "tasks:app", "--grace", "60", folder=folder) as worker:
        worker.until("the handler is at work")
        worker.send(number)
        worker.until("draining: 1 job ")
        (folder / "gate").write_bytes(b"go on")
        assert worker.ended() == 0
    assert got(queue, receipt.id).state == "completed"


def test_a_container_can_ask_how_a_worker_is(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("brief")
    arguments = ("worker", "tasks:app", "--health", "0", "--json", "--grace", "60")
    with run.start(*arguments, folder=folder) as worker:
        port = json.loads(worker.until('"started"'))["health"].rpartition(":")[2]
        worker.until("the handler is at work")
        assert run("probe", "--port", port).code == 0
        ready = run("probe", "--ready", "--port", port, "--json")
        assert (ready.code, ready.object["ready"]) == (0, True)
        worker.send(signal.SIGTERM)
        worker.until("draining: 1 job ")
        assert run("probe", "--live", "--port", port).code == 0
        drains = run("probe", "--ready", "--port", port)
        assert (drains.code, drains.stdout) == (1, "not ready: it drains\n")
        (folder / "gate").write_bytes(b"go on")
        assert worker.ended() == 0
    gone = run("probe", "--port", port)
    assert gone.code == 1
    assert "no worker answers" in gone.stderr


def test_a_worker_whose_threads_never_end_starts_itself_again(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("stubborn", timeout_seconds=0.05, max_attempts=1)
    with run.start("worker", "tasks:app", "--recycle", "1", folder=folder) as worker:
        worker.until("1 handlers would not stop: draining")
        worker.until("starting again")
        worker.until("ends")
        queue.enqueue("add", {"a": 1, "b": 2}, id="after")
        assert queue.call("add", {"a": 2, "b": 2}) == 4
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0


def test_worker_options_come_from_the_environment(
    run: Penstock, queue: BlockingQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "WORKER_CONCURRENCY": "3",
        "WORKER_NAME": "from-the-environment",
        "WORKER_BURST": "1",
        "WORKER_MONITOR": "0",
        "WORKER_GRACE": "7",
        "LOG_LEVEL": "critical",
    }.items():
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    queue.enqueue("fail")
    with run.start("worker", "tasks:app", "--json", "--grace", "8", folder=folder) as worker:
        assert worker.ended() == 0
    started, stopped = [json.loads(line) for line in worker.lines]
    assert (started["worker"], started["concurrency"]) == ("from-the-environment", 3)
    assert (started["monitor"], started["grace_seconds"]) == (False, 8), "a flag comes first"
    assert stopped["failed"] == 1


def test_logging_is_left_to_an_app_that_wants_it(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    (folder / "own.py").write_text(
        "import logging\nfrom tasks import app\n"
        "logging.basicConfig(format='mine: %(levelname)s %(task)s %(message)s', level='ERROR')\n"
    )
    queue.enqueue("fail")
    with run.start("worker", "own:app", "--burst", "--no-log-config", folder=folder) as worker:
        worker.until("mine: ERROR fail job failed for good: Permanent: it was never going to work")
        assert worker.ended() == 0


def test_a_thread_that_never_ends_does_not_keep_the_worker(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    receipt = queue.enqueue("stubborn")
    with run.start("worker", "tasks:app", "--grace", "0", folder=folder) as worker:
        worker.until("the thread hangs")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
    assert got(queue, receipt.id).state == "pending"


def test_a_second_signal_gives_everything_back_at_once(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    receipt = queue.enqueue("hang")
    with run.start("worker", "tasks:app", "--grace", "600", folder=folder) as worker:
        worker.until("the handler hangs")
        worker.send(signal.SIGTERM)
        worker.until("draining")
        worker.send(signal.SIGTERM)
        worker.until("giving back")
        assert worker.ended() == 0
        assert "1 given back" in worker.lines[-1]
    job = got(queue, receipt.id)
    assert (job.state, job.failures) == ("pending", 0)


def test_what_outlasts_the_grace_is_given_back(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    receipt = queue.enqueue("hang")
    with run.start("worker", "tasks:app", "--grace", "0", folder=folder) as worker:
        worker.until("the handler hangs")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
    assert got(queue, receipt.id).state == "pending"


def test_the_address_can_be_another_than_the_apps(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    (folder / "elsewhere.py").write_text(
        "import penstock\n\napp = penstock.App('memory://')\n\n\n"
        "@app.task\nasync def work() -> None: ...\n"
    )
    arguments = ("worker", "elsewhere:app", "--burst", "--url", run.url, "--tenant", "acme")
    with run.start(*arguments, folder=folder) as worker:
        assert worker.ended() == 0
    assert any(f"{Path(run.url).as_uri()}, tenant acme" in line for line in worker.lines)


def test_an_edit_starts_the_worker_again(run: Penstock, queue: BlockingQueue, folder: Path) -> None:
    with run.start("worker", "tasks:app", "--reload", folder=folder) as worker:
        worker.until("ends")
        source = (folder / "tasks.py").read_text()
        (folder / "tasks.py").write_text(source.replace("def add", "def subtract"))
        assert "subtract" in worker.until("subtract")
        worker.until("ends")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere:app", ["no module 'nowhere'", "current folder"]),
        ("tasks:nothing", ["no 'nothing'", "tasks:app"]),
        ("tasks:not_an_app", ["no penstock.App but a int", "tasks:app"]),
        ("tasks.py:app", ["name the module: tasks:app"]),
        ("broken", ["can't be imported", "NameError", "broken.py:1"]),
        ("exiting", ["'exiting'", "ends the program by sys.exit(7)", "exiting.py:3"]),
        ("wordy", ["can't be imported", "RuntimeError: one and another line", "wordy.py:1"]),
        ("unresolved", ["can't be resolved", "'Order'", "unresolved.py:5)"]),
        ("needy", ["can't be imported", "it needs 'not_installed'"]),
        ("empty", ["which app", "no penstock.App in it"]),
        ("several", ["which app", "several:one, several:two"]),
    ],
)
def test_an_app_that_cannot_be_loaded_is_explained(
    run: Penstock, folder: Path, place: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    (folder / "broken.py").write_text("undefined\n")
    (folder / "exiting.py").write_text("import sys\n\nsys.exit(7)\n")
    (folder / "wordy.py").write_text(r"raise RuntimeError('one\n  and another line\n')")
    (folder / "needy.py").write_text("import not_installed\n")
    (folder / "unresolved.py").write_text(
        "import penstock\n\napp = penstock.App()\n\n@app.task\ndef pack(order: 'Order'): ...\n"
    )
    (folder / "empty.py").write_text("")
    (folder / "several.py").write_text(
        "import penstock\n\none = penstock.App()\ntwo = penstock.App()\n"
    )
    with run.start("worker", place, folder=folder) as worker:
        assert worker.ended() == 2
    [said] = worker.lines
    assert said.startswith("error: ")
    for word in words:
        assert word in said


def test_a_monitor_takes_back_dead_leases(run: Penstock, queue: BlockingQueue) -> None:
    queue.configure(clock_skew_seconds=0)
    queue.enqueue("add", 1, id="a")
    queue.claim(1, lease_seconds=0)
    assert run("monitor", run.url, "--once").stdout == "did one round\n"
    assert got(queue, "a").state == "pending"
    assert run("monitor", "--once", "--json").object == {"led": True}


def test_a_monitor_ends_with_a_signal(run: Penstock, queue: BlockingQueue, folder: Path) -> None:
    with run.start("monitor", folder=folder) as monitor:
        monitor.until("monitoring file://")
        monitor.send(signal.SIGTERM)
        assert monitor.ended() == 0


def test_a_burst_leaves_what_it_does_not_know_and_says_so(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("add", {"a": 1, "b": 2})
    queue.enqueue("new", id="new")
    with run.start("worker", "tasks:app", "--burst", folder=folder) as worker:
        assert worker.ended() == 0
    said = "\n".join(worker.lines)
    assert "left waiting: 1 job of type new (no task of this app)" in said
    assert "1 completed" in said
    assert got(queue, "new").attempt == 0
    assert "no worker serves new in default: 1 waiting" in run("stats").stdout
    (alone,) = run("stats", "--json").object["unserved"]
    assert (alone["type"], alone["pending"]) == ("new", 1)
    with run.start("worker", "tasks:app", "--burst", "--unknown", "fail", folder=folder) as worker:
        assert worker.ended() == 0
    assert got(queue, "new").errors[0].kind == "unknown_type"


def test_a_burst_says_where_jobs_of_its_types_wait_that_it_was_not_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def waiting(queue: str, **types: int) -> QueueStats:
        found = [TypeStats(type, pending, None) for type, pending in types.items()]
        return QueueStats(queue, {}, 0, 0, 0, False, None, types=found)

    stats = Stats({}, [waiting("default", add=3, new=1), waiting("mail", new=2)], 6, 1, 0.0)
    assert waiting_elsewhere(stats, ["default"], ["add"]) == {}
    assert waiting_elsewhere(stats, None, ["add"]) == {}
    assert waiting_elsewhere(stats, ["exprots"], None) == {"default": 4, "mail": 2}
    left_in(stats, ["exprots"], ["add"], ["add"]).say()
    said = "of its types, jobs wait in queues that it does not serve: 3 in default\n"
    assert capsys.readouterr().out == said


def test_a_burst_says_of_each_job_that_it_left_why_it_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def waiting(
        queue: str, *types: TypeStats, scheduled: int = 0, paused: bool = False
    ) -> QueueStats:
        pending = sum(one.pending for one in types)
        return QueueStats(queue, {}, pending, scheduled, 0, paused, None, types=list(types))

    later, both = TypeStats("add", 3, None), TypeStats("add", 5, 7.0)
    stats = Stats(
        {},
        [
            waiting("a", later, TypeStats("new", 1, 7.0), scheduled=3),
            waiting("b", both, TypeStats("fail", 2, None), scheduled=6),
            waiting("c", TypeStats("add", 4, 7.0), paused=True),
        ],
        15, 1, 9.0,
    )  # fmt: skip
    left = left_in(stats, None, ["add", "fail"], ["add"])
    assert left.by_type == {"add": 12, "fail": 2, "new": 1}
    assert left.reasons == {
        ("add", "due by now"): 1,
        ("add", "in queue c, which is paused"): 4,
        ("add", "not due yet"): 3 + 4,
        ("fail", "not asked for by --types"): 2,
        ("new", "no task of this app"): 1,
    }
    left.say()
    assert "left waiting: 7 jobs of type add (not due yet)\n" in capsys.readouterr().out


def test_jobs_that_are_to_fail_and_types_that_all_have_a_task_are_refused_together(
    run: Penstock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    ran = run("worker", "tasks:app", "--burst", "--unknown", "fail", "--types", "add")
    assert ran.code == 2
    assert "unknown='fail' has no effect beside types that all have a task" in ran.stderr


def test_types_narrow_what_a_worker_claims(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    queue.enqueue("fail")
    queue.enqueue("add", {"a": 1, "b": 2}, id="add")
    arguments = ("worker", "tasks:app", "--burst", "--json", "--types", "add")
    with run.start(*arguments, folder=folder) as worker:
        assert worker.ended() == 0
    stopped = json.loads(worker.lines[-1])
    assert (stopped["claimed"], stopped["left"]) == (1, {"fail": 1})
    assert stopped["reasons"] == [{"type": "fail", "why": "not asked for by --types", "jobs": 1}]
    with run.start("worker", "tasks:app", "--types", "nosuch", folder=folder) as worker:
        assert worker.ended() == 2
    assert "this app has no task 'nosuch'" in "\n".join(worker.lines)


def test_a_worker_without_tasks_refuses_to_start_and_says_what_it_imported(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    (folder / "empty.py").write_text("import penstock\napp = penstock.App()\n")
    with run.start("worker", "empty:app", folder=folder) as worker:
        assert worker.ended() == 2
    said = " ".join(worker.lines)
    assert "the app has no tasks" in said
    assert "empty.py" in said


EXITING = """
import asyncio
import sys

import penstock

app = penstock.App()


async def child() -> None:
    sys.exit(3)


@app.task(max_attempts=1)
async def leave() -> None:
    await asyncio.gather(child())


@app.task
async def leave_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.Event().wait()


@app.on_failed
def report(job: penstock.Job, error: BaseException) -> None:
    sys.exit("bye")
"""


def test_a_job_and_a_hook_that_exit_do_not_end_the_worker(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    (folder / "exiting.py").write_text(EXITING)
    receipts = [queue.enqueue("leave", max_attempts=1) for _ in range(2)]
    with run.start("worker", "exiting:app", "--burst", "-c", "1", folder=folder) as worker:
        assert worker.ended() == 0
    assert [got(queue, one.id).errors[0].kind for one in receipts] == ["exit", "exit"]
    assert any("a hook failed: report" in line for line in worker.lines)


def test_a_callback_that_exits_ends_the_worker_at_once_with_one_line(
    run: Penstock, queue: BlockingQueue, folder: Path
) -> None:
    (folder / "exiting.py").write_text(EXITING)
    receipt = queue.enqueue("leave_in_a_callback")
    with run.start("worker", "exiting:app", folder=folder) as worker:
        assert worker.ended() == 1
    said = " ".join(worker.lines)
    assert "error: a callback in the event loop raised SystemExit: 3" in said
    # It counts as an attempt, so a job that does this each time does not do so for ever.
    assert got(queue, receipt.id).state is State.RUNNING
