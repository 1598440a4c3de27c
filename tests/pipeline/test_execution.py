"""Workers inside Spark tasks: any worker's semantics, and nothing lost whatever is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.address import parse
from penstock.errors import InvalidInput
from penstock.pipeline.execution import running
from penstock.pipeline.execution.running import place_of, run
from penstock.testing.conformance.backend.steps import nonzero
from tests.pipeline import spark_tasks

PLACE = "tests.pipeline.spark_tasks:app"
ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS_MAX = 280
"""Three JVMs on a machine that is busy with other tests take minutes to start."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{tmp_path.as_uri()}/queue?fsync=off&clock_skew_seconds=0.5"


class Gate:
    """Holds handlers up, and knows the processes of those that it does."""

    def __init__(self, folder: Path) -> None:
        self.pipes = {"told": str(folder / "told"), "gate": str(folder / "gate")}
        for path in self.pipes.values():
            os.mkfifo(path)
        self._told = os.open(self.pipes["told"], os.O_RDWR | os.O_NONBLOCK)
        self._open: int | None = None

    def jobs(self, count: int) -> list[penstock.NewJob]:
        return [penstock.NewJob("pass_gate", self.pipes) for _ in range(count)]

    async def waiting(self, count: int) -> list[int]:
        """The processes of so many handlers, once they are there."""
        loop, told = asyncio.get_running_loop(), bytearray()
        enough = loop.create_future()

        def take() -> None:
            told.extend(os.read(self._told, 8 * count - len(told)))
            if len(told) == 8 * count:
                loop.remove_reader(self._told)
                enough.set_result(None)

        loop.add_reader(self._told, take)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await enough
        finally:
            loop.remove_reader(self._told)
        return [int(told[start : start + 8]) for start in range(0, len(told), 8)]

    def open(self) -> None:
        """For all who wait and who come later."""
        self._open = os.open(self.pipes["gate"], os.O_RDWR)

    def close(self) -> None:
        for pipe in (self._told, self._open):
            if pipe is not None:
                os.close(pipe)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    gate.close()


async def completed(queue: penstock.Queue, count: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        async for event in queue.events("beginning"):
            count -= event.event == "completed"
            if count == 0:
                return


async def test_a_burst_drains_what_it_knows_and_says_what_it_left(
    spark: SparkSession, url: str
) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue_many(penstock.NewJob("square", {"number": n}) for n in range(200))
        await queue.enqueue_many(penstock.NewJob("in_a_process", {"number": n}) for n in range(2))
        await queue.enqueue("nothing_like_it")
        report = await asyncio.to_thread(run, spark_tasks.app, url, spark=spark, burst=True)
        totals = (await queue.stats()).totals
        squares = {job.result async for job in queue.jobs(type="square")}
    assert [worker.task for worker in report.workers] == [0, 1]
    assert len({worker.worker for worker in report.workers}) == 2
    total = report.total
    assert (total.claimed, total.completed, total.failed) == (202, 202, 0)
    assert nonzero(totals) == {"completed": 202, "pending": 1}
    assert report.left == {"nothing_like_it": 1}
    assert squares == {number * number for number in range(200)}


async def test_a_cancelled_spark_job_lets_its_workers_drain(
    spark: SparkSession, url: str, gate: Gate
) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue_many(gate.jobs(6))
        work = asyncio.create_task(asyncio.to_thread(run, PLACE, url, spark=spark, tasks=1))
        await gate.waiting(6)
        spark.sparkContext.cancelAllJobs()
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not [each for each in await queue.workers() if each.state == "draining"]:
                assert not work.done()
        gate.open()
        with pytest.raises(Exception, match="cancelled"):
            await work
        jobs = [job async for job in queue.jobs()]
        assert await queue.workers() == []
    assert [(job.state, job.attempt) for job in jobs] == [("completed", 1)] * 6


def test_a_run_can_end_after_some_time(spark: SparkSession, url: str) -> None:
    with penstock.open_sync(url) as queue:
        queue.enqueue("square", {"number": 3})
        report = run(PLACE, url, spark=spark, tasks=1, seconds=0.5)
        assert (report.total.completed, nonzero(queue.stats().totals)) == (1, {"completed": 1})


def test_an_app_is_known_by_where_it_stands() -> None:
    assert place_of(spark_tasks.app) == PLACE
    with pytest.raises(InvalidInput, match="module"):
        place_of(penstock.App("memory://"))


def test_what_can_not_work_is_said_before_spark_is_asked() -> None:
    with pytest.raises(InvalidInput, match="memory"):
        run(PLACE)
    with pytest.raises(InvalidInput, match="no module"):
        run("nowhere:app")
    with pytest.raises(InvalidInput, match="concurrency"):
        run(PLACE, "file:///tmp/queue", concurrency=0)


def test_more_tasks_than_share_a_log_well_are_warned_of(
    spark: SparkSession, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = parse(url, {})
    assert running._tasks(spark, None, address) == 2
    assert running._tasks(spark, 9, address) == 9
    assert "concurrency" in caplog.text
    with pytest.raises(InvalidInput, match="tasks=0"):
        running._tasks(spark, 0, address)


PROGRAM = """
import sys
from penstock.pipeline.execution.running import run
from penstock.pipeline.session import session

url, master, tasks = sys.argv[1:]
spark = session(master)
run(
    "tests.pipeline.spark_tasks:app", url, spark=spark, tasks=int(tasks), lease_seconds=10,
)
"""


class Program:
    """A Spark program in a process of its own, since one process has one session."""

    def __init__(self, url: str, master: str, tasks: int = 2) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([f"{ROOT}/src", str(ROOT)])}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url, master, str(tasks)],
            env=environment, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def descendants(self) -> dict[int, str]:
        """The processes that it started, with their command lines."""
        parents: dict[int, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents[int(stat.parent.name)] = int(words[1])
        found: dict[int, str] = {}
        for pid in parents:
            parent = pid
            while parent in parents and parent != self.process.pid:
                parent = parents[parent]
            if parent == self.process.pid and pid != self.process.pid:
                with suppress(OSError):  # it has ended meanwhile
                    line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                    found[pid] = line.decode(errors="replace")
        return found

    def kill_executor_of(self, pid: int) -> None:
        """SIGKILL for the executor's JVM that started this Python worker, and for the worker."""
        executors = [
            each for each, line in self.descendants().items()
            if "CoarseGrainedExecutorBackend" in line and "--executor-id" in line
        ]  # fmt: skip
        parent = _parent(_parent(pid))
        assert parent in executors
        for each in (parent, pid):
            os.kill(each, signal.SIGKILL)

    async def end(self) -> None:
        self.process.terminate()
        await asyncio.to_thread(self.process.wait)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_an_executor_that_is_killed_in_the_middle_loses_nothing(url: str, gate: Gate) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue_many(gate.jobs(100))
        program = Program(url, "local-cluster[2,1,1024]")
        try:
            held = Counter(await gate.waiting(100))
            victim, count = held.most_common()[-1]
            program.kill_executor_of(victim)
            gate.open()
            await completed(queue, 100)
        finally:
            await program.end()
        jobs = [job async for job in queue.jobs()]
        events = [event.event async for event in queue.events("beginning", follow=False)]
    assert len(held) == 2
    assert Counter(job.state for job in jobs) == {"completed": 100}
    # No more is run again than what the killed one held, unless a heartbeat came late.
    assert events.count("claimed") == 100 + events.count("expired")
    assert events.count("expired") >= count
    assert victim not in {job.result for job in jobs}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_where_spark_tries_tasks_again_a_killed_worker_is_replaced(
    url: str, gate: Gate
) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue_many(gate.jobs(20))
        program = Program(url, "local[2,3]", tasks=1)
        try:
            (victim,) = set(await gate.waiting(20))
            assert victim in program.descendants()
            os.kill(victim, signal.SIGKILL)
            (successor,) = set(await gate.waiting(20))
            gate.open()
            await completed(queue, 20)
        finally:
            await program.end()
        jobs = [job async for job in queue.jobs()]
    assert {(job.state, job.result) for job in jobs} == {("completed", successor)}
    assert {(job.worker or "").rpartition(".")[2] for job in jobs} == {"1"}
