"""What a type checker says about programs that use penstock: mypy, strict, and pyright.

Each line of the program that has `# wrong` has to be refused, and no other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.address import Options, QueueOptions
from penstock.app.task import TaskChanges, TaskOptions
from penstock.client.newjob import CallOptions, NewJob
from penstock.kernel.settings import Settings, SettingsChanges

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 240

PROGRAM = """
from __future__ import annotations

import asyncio
from typing import Any

import penstock

app = penstock.App("memory://", tenant="acme")
penstock.App(tennant="acme")  # wrong


@app.task(max_attempts=3, key="one")
async def add(a: int, b: int) -> int:
    return a + b


@app.task
def shout(job: penstock.JobContext, words: str) -> str:
    return words.upper()


@app.task(max_attempt=3)  # wrong
async def misdeclared() -> None: ...


async def tasks() -> None:
    receipt: penstock.Receipt = await add.enqueue(1, b=2)
    total: int = await add.call(1, 2)
    loud: str = await shout.options(priority=1, delay_seconds=3).call("hello")
    await add.enqueue(1)  # wrong
    await add.enqueue("1", 2)  # wrong
    wrong: str = await add.call(1, 2)  # wrong
    add.options(delay_second=3)  # wrong
    add.options(priority="high")  # wrong
    shout.enqueue_sync(7)  # wrong
    add.delay(1, 2)  # wrong
    found: penstock.Job | None = await app.get(receipt.id)
    print(receipt, total, loud, wrong, found)


@app.task
def double(number: int) -> int:
    return number * 2


@app.task(name="named")  # as a decorator with options, too
def halve(number: int) -> float:
    return number / 2


@app.task
async def describe(number: int) -> dict[str, Any]:
    return {"number": number}


@app.task("misnamed")  # wrong
def misnamed() -> None: ...


async def direct(job: penstock.JobContext) -> None:
    here: int = await add(1, 2) + double(3)
    half: float = halve(3)
    loud: str = shout(job, "hello") + await app.execute_now(shout, words="hello")
    now: int = await app.execute_now(add, 1, b=2)
    asyncio.run(add(1, 2))
    described: dict[str, Any] = await describe.call(3)
    double("3")  # wrong
    await describe.enqueue("3")  # wrong
    await describe("3")  # wrong
    describe.options(delay_second=3)  # wrong
    wrong_result: int = await shout.options(priority=1).call("hello")  # wrong
    wrong_later: str = add.call_sync(1, 2)  # wrong
    halve(number="3")  # wrong
    print(add(1, 2) + 3)  # wrong
    await add(1, "2")  # wrong
    shout("hello")  # wrong
    wrong: str = double(3)  # wrong
    await app.execute_now(add, a=1, b="2")  # wrong
    print((await app.execute_now(double, number=1)).upper())  # wrong
    print(here, half, loud, now, described, wrong, wrong_result, wrong_later)


def passed_on(task: penstock.Task[[int, int], int]) -> penstock.Receipt:
    task.enqueue_sync("1", 2)  # wrong
    return task.enqueue_sync(1, 2)


passed_on(add)


@app.on_start
async def connect(app: penstock.App) -> None: ...


@app.on_completed
def completed(job: penstock.Job, result: Any) -> None: ...


@app.on_failed
def failed(job: penstock.Job, error: Exception) -> None: ...


@app.on_retried
async def retried(job: penstock.Job, error: BaseException) -> None: ...


app.on_stalled(lambda job: print(job.id))
app.on_start(lambda: None)  # wrong
app.on_failed(lambda job: None)  # wrong
app.on_error(completed)  # wrong
app.on_stalled(failed)  # wrong
app.on_completed(connect)  # wrong


async def queues() -> None:
    async with penstock.open("memory://", offload=True, result_ttl_seconds=1) as queue:
        receipt: penstock.Receipt = await queue.enqueue("resize", {"id": 7}, priority=5)
        [job] = await queue.claim(1, worker="w")
        await queue.ack(job, {"width": 640})
        found: penstock.Job | None = await queue.get(receipt.id)
        await queue.enqueue("resize", prioritty=5)  # wrong
        await queue.call("resize", delay_second=5)  # wrong
        await queue.configure(result_ttl_seconds=60, default_retry=penstock.RetryPolicy())
        await queue.configure(result_ttl_second=3)  # wrong
        await queue.configure(default_max_attempts="many")  # wrong
        print(found)
    penstock.open("memory://", layuot="log")  # wrong
    try:
        pass
    except penstock.JobFailed as error:
        print(error)
    except penstock.JobFialed:  # wrong
        pass


def blocking() -> None:
    with penstock.open_sync("memory://") as queue:
        receipt: penstock.Receipt = queue.enqueue("resize", {"id": 7}, priority=5)
        [job] = queue.claim(1)
        queue.ack(job, {"width": 640})
        one: penstock.Job | None = queue.get(receipt.id)
        many: list[penstock.Job | None] = queue.get([receipt.id])
        for listed in queue.jobs(state="failed"):
            print(listed.id)
        with queue.keep_alive(job) as held:
            print(held.id)
        queue.enqueue("resize", prioritty=5)  # wrong
        queue.enqeue("resize")  # wrong
        queue.configure(result_ttl_second=3)  # wrong
        print(one, many, queue.capabilities, queue.tenant)
"""


def wrong_lines() -> set[int]:
    lines = PROGRAM.splitlines()
    return {number for number, line in enumerate(lines, start=1) if line.endswith("# wrong")}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_mypy_refuses_what_is_wrong_and_nothing_else(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--no-error-summary",
         "--config-file=", str(program)],
        env={"PATH": "", "MYPYPATH": str(ROOT / "src")},
        cwd=program.parent, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    found = {
        int(line) for line in re.findall(r"^program\.py:(\d+): error", done.stdout, re.MULTILINE)
    }
    assert found == wrong_lines(), done.stdout + done.stderr


def test_pyright_refuses_what_is_wrong_and_nothing_else(program: Path) -> None:
    settings = {
        "typeCheckingMode": "standard", "extraPaths": [str(ROOT / "src")],
        "reportAttributeAccessIssue": "error",
    }  # fmt: skip
    (program.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable,
         "--project", str(program.parent)],
        cwd=program.parent, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    report = json.loads(done.stdout)
    errors = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    found = {one["range"]["start"]["line"] + 1 for one in errors}
    assert found == wrong_lines(), done.stdout


def test_the_public_names_are_listed() -> None:
    names = set(dir(penstock))
    assert {"open", "App", "Queue", "JobFailed", "Task", "OutcomeUnknown"} <= names
    assert all(hasattr(penstock, name) for name in names)


@pytest.mark.parametrize(
    ("keywords", "fields"),
    [
        (QueueOptions, {*Options.__struct_fields__, *Settings.__struct_fields__}),
        (SettingsChanges, set(Settings.__struct_fields__)),
        (TaskChanges, set(TaskOptions.__struct_fields__)),
        (CallOptions, {*NewJob.__struct_fields__} - {"type", "payload", "timeout_seconds"}),
    ],
    ids=["open", "configure", "task", "call"],
)
def test_what_a_type_checker_sees_is_what_there_is(keywords: Any, fields: set[str]) -> None:
    inherited = {name for kind in keywords.__mro__ for name in getattr(kind, "__annotations__", {})}
    assert inherited | set(keywords.__annotations__) == fields
