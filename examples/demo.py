"""A tour of penstock in fifteen seconds: `make demo`.

A queue in a temporary folder gets a few thousand jobs of several kinds, asyncio workers run them,
and a second process takes some and is killed. In the end every job must be accounted for; the exit
code says whether it is.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import penstock
from penstock import Job, NewJob, Queue, Receipt, RetryPolicy, State
from penstock.stores.layers.counting import Counting, Requests
from penstock.stores.local import local_store

WORKERS = 8
JOBS_PER_CLAIM = 32
WORK_SECONDS = 0.05  # how long a job pretends to take
LEASE_SECONDS = 1.0  # of the process that is killed; short, so that its jobs are soon back
CLOCK_SKEW_SECONDS = 0.5
DEMO_SECONDS_MAX = 25.0

# What S3 takes for 1,000 requests.
WRITE_DOLLARS = 0.005
READ_DOLLARS = 0.0004

console = Console()


@dataclass(frozen=True)
class Kind:
    """Jobs of one type: what is special about them, and how they should end."""

    story: str
    count: int
    end: State = State.COMPLETED
    options: dict[str, Any] = field(default_factory=dict)


SOON = RetryPolicy(initial_seconds=0.2)
KINDS = {
    "quick": Kind("just run", 4_000),
    "flaky": Kind("fail once, then succeed", 300, options={"retry": SOON}),
    "hopeless": Kind("fail until given up", 50, State.FAILED, {"max_attempts": 2, "retry": SOON}),
    "scheduled": Kind("due after three seconds", 200, options={"delay_seconds": 3.0}),
    "unwanted": Kind("cancelled while waiting", 20, State.CANCELLED, {"delay_seconds": 3_600.0}),
    "urgent": Kind("enqueued last, run first", 100, options={"priority": -10}),
    "keyed": Kind("enqueued twice, run once", 100),
    "add": Kind("a call, with an answer", 1),
    "fragile": Kind("lost by a killed process", 60, options={"retry": SOON}),
}


async def main() -> int:
    tour = Tour()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as place:
        folder = Path(place) / "queue"
        store = Counting(local_store(folder))
        async with (
            asyncio.timeout(DEMO_SECONDS_MAX),
            penstock.open(store=store, clock_skew_seconds=CLOCK_SKEW_SECONDS) as queue,
        ):
            await enqueue_one_by_one(queue, tour)
            await enqueue_the_others(queue, tour)
            await cancel_the_unwanted(queue, tour)
            await work_off(queue, tour, call_for_a_sum(queue, tour))
            await lose_a_process(queue, tour, folder)
            show_figures(tour, store.requests)
            is_right = await account_for_all(queue, tour)
    return 0 if is_right else 1


async def enqueue_one_by_one(queue: Queue, tour: Tour) -> None:
    """Each caller is told when its job is durable; callers at the same time share a write."""
    latencies = []

    async def enqueue(kind: str, number: int) -> None:
        asked_at = time.perf_counter()
        receipt = await queue.enqueue(kind, {"number": number}, **KINDS[kind].options)
        latencies.append(time.perf_counter() - asked_at)
        tour.accept(receipt, kind)

    started_at = time.perf_counter()
    for kind in ("quick", "flaky", "hopeless"):
        await asyncio.gather(*(enqueue(kind, number) for number in range(KINDS[kind].count)))
    rate = len(latencies) / (time.perf_counter() - started_at)
    console.print(f"enqueued {len(latencies):,} jobs, one per call")
    tour.figures["enqueue"] = f"{rate:,.0f} jobs/s; a call took {percentiles(latencies)}"


async def enqueue_the_others(queue: Queue, tour: Tour) -> None:
    for kind in ("scheduled", "unwanted", "urgent"):
        await enqueue_together(queue, tour, kind)
    keys = [f"customer-{number}" for number in range(KINDS["keyed"].count)]
    receipts = await asyncio.gather(*(queue.enqueue("keyed", key=key) for key in keys * 2))
    for receipt in receipts:
        tour.accept(receipt, "keyed")
    console.print(f"enqueued the others, {tour.duplicates} of them in vain: their keys were held")


async def enqueue_together(queue: Queue, tour: Tour, kind: str) -> None:
    numbers, options = range(KINDS[kind].count), KINDS[kind].options
    new = [NewJob(kind, {"number": number}, **options) for number in numbers]
    for outcome in await queue.enqueue_many(new):
        assert isinstance(outcome, Receipt)  # the alternative is the error of this one job
        tour.accept(outcome, kind)


async def cancel_the_unwanted(queue: Queue, tour: Tour) -> None:
    unwanted = [id for id, kind in tour.kind_of.items() if kind == "unwanted"]
    outcomes = Counter(await queue.cancel(unwanted))
    tour.finish(unwanted)
    console.print(f"cancelled {outcomes['cancelled']}")


async def work_off(queue: Queue, tour: Tour, *beside: Coroutine[Any, Any, None]) -> None:
    """Runs workers until every job has ended, and other things beside them."""
    started_at = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(other) for other in beside]
        until_then = [tasks.create_task(work(queue, f"worker-{n}", tour)) for n in range(WORKERS)]
        until_then.append(tasks.create_task(show_progress(tour)))
        await asyncio.gather(*others)
        await tour.finished.wait()
        for task in until_then:
            task.cancel()
    ran = [at for at in tour.finished_at["quick"] if at >= started_at]
    if ran:
        tour.figures["work"] = f"{len(ran) / (max(ran) - started_at):,.0f} quick jobs/s"


async def work(queue: Queue, name: str, tour: Tour) -> None:
    while True:
        jobs = await queue.claim(JOBS_PER_CLAIM, worker=name, wait_seconds=1.0)
        await asyncio.gather(*(handle(queue, job, tour) for job in jobs))


async def handle(queue: Queue, job: Job, tour: Tour) -> None:
    tour.ran.append(job.type)
    try:
        result = await run(job)
    except RuntimeError as error:
        state = await queue.nack(job, error)
    else:
        await queue.ack(job, result)
        state = State.COMPLETED
    if state is not State.PENDING:
        tour.finish([job.id])


async def run(job: Job) -> Any:
    """The work itself."""
    await asyncio.sleep(WORK_SECONDS)
    match job.type:
        case "add":
            return job.payload["a"] + job.payload["b"]
        case "flaky" if job.attempt == 1:
            raise RuntimeError("not at the first attempt")
        case "hopeless":
            raise RuntimeError("never")
        case _:
            return None


async def call_for_a_sum(queue: Queue, tour: Tour) -> None:
    """Request and response, past all the jobs that wait."""
    tour.expect("two-and-three", "add")
    asked_at = time.perf_counter()
    five = await queue.call("add", {"a": 2, "b": 3}, id="two-and-three", priority=-20)
    seconds = time.perf_counter() - asked_at
    tour.figures["call"] = f"2 + 3 = {five}, in {seconds * 1000:.0f} ms"


async def lose_a_process(queue: Queue, tour: Tour, folder: Path) -> None:
    """Another process claims jobs and is killed; when its leases have run out, others run them."""
    await enqueue_together(queue, tour, "fragile")
    doomed = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--hold", folder.as_uri()), stdout=asyncio.subprocess.PIPE
    )
    assert doomed.stdout is not None
    held = int(await doomed.stdout.readline())
    doomed.kill()
    await doomed.wait()
    killed_at = time.perf_counter()
    console.print(f"killed a process that held {held} jobs, for {LEASE_SECONDS:g} s at most")
    await work_off(queue, tour)
    seconds = max(tour.finished_at["fragile"]) - killed_at
    tour.figures["recovery"] = f"all {held} jobs of the killed process done in {seconds:.1f} s"


async def hold(url: str) -> None:
    """The life of the process that is killed."""
    async with penstock.open(url) as queue:
        jobs = await queue.claim(1_000, worker="doomed", lease_seconds=LEASE_SECONDS)
        print(len(jobs), flush=True)
        await asyncio.sleep(DEMO_SECONDS_MAX)


async def account_for_all(queue: Queue, tour: Tour) -> bool:
    """What the queue says became of each job, against what should have."""
    found = {job.id: job async for job in queue.jobs()}
    table = Table("kind", "jobs", "completed", "failed", "cancelled", "runs", "", box=None)
    is_right = found.keys() == tour.kind_of.keys()
    for name, kind in KINDS.items():
        jobs = [found[id] for id, of in tour.kind_of.items() if of == name and id in found]
        states, runs = Counter(job.state for job in jobs), sum(job.attempt for job in jobs)
        is_right &= states == {kind.end: kind.count}
        ends = (states[state] for state in (State.COMPLETED, State.FAILED, State.CANCELLED))
        table.add_row(name, *(f"{n:,}" for n in (len(jobs), *ends, runs)), kind.story)
    totals = (await queue.stats()).totals
    is_right &= sum(totals.values()) == len(tour.kind_of) and tour.are_urgent_first()
    console.print(table)
    told = ", ".join(f"{count:,} {state}" for state, count in totals.items() if count)
    verdict = "every job is accounted for" if is_right else "the counts do not add up"
    console.print(f"{told}: {verdict}", style="bold green" if is_right else "bold red")
    return is_right


def show_figures(tour: Tour, used: Requests) -> None:
    jobs = len(tour.kind_of)
    writes, reads = used.puts + used.lists, used.gets
    dollars = (writes * WRITE_DOLLARS + reads * READ_DOLLARS) / 1_000
    tour.figures["requests"] = f"{writes:,} PUT or LIST and {reads:,} GET for {jobs:,} jobs"
    tour.figures["on S3"] = f"${dollars:.4f}, or ${dollars / jobs * 1e6:.2f} for a million jobs"
    for name, figure in tour.figures.items():
        console.print(f"{name:>10}  {figure}")


async def show_progress(tour: Tour) -> None:
    """A bar for each kind, until cancelled."""
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        first = tour.unfinished_by_kind()
        bars = {kind: progress.add_task(kind, total=count) for kind, count in first.items()}
        try:
            while True:
                await asyncio.sleep(0.1)
                left = tour.unfinished_by_kind()
                for kind, bar in bars.items():
                    progress.update(bar, completed=first[kind] - left[kind])
        finally:
            for kind, bar in bars.items():
                progress.update(bar, completed=first[kind] - tour.unfinished_by_kind()[kind])


class Tour:
    """What the demo itself saw, to be compared with what the queue says in the end."""

    def __init__(self) -> None:
        self.kind_of: dict[str, str] = {}  # of every job that was accepted, by id
        self.duplicates = 0
        self.ran: list[str] = []  # the kinds of jobs, in the order in which they ran
        self.finished = asyncio.Event()
        self.finished_at: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.figures: dict[str, str] = {}
        self._unfinished: set[str] = set()

    def accept(self, receipt: Receipt, kind: str) -> None:
        if receipt.status == "queued":
            self.expect(receipt.id, kind)
        else:
            self.duplicates += 1

    def expect(self, id: str, kind: str) -> None:
        self.kind_of[id] = kind
        self._unfinished.add(id)
        self.finished.clear()

    def finish(self, ids: Iterable[str]) -> None:
        for id in ids:
            self._unfinished.discard(id)
            self.finished_at[self.kind_of[id]].append(time.perf_counter())
        if not self._unfinished:
            self.finished.set()

    def unfinished_by_kind(self) -> Counter[str]:
        return Counter(self.kind_of[id] for id in self._unfinished)

    def are_urgent_first(self) -> bool:
        """Whether no other job ran before them; the call's had a better priority still."""
        ran = [kind for kind in self.ran if kind != "add"]
        return set(ran[: KINDS["urgent"].count]) == {"urgent"}


def percentiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"{middle * 1000:.0f} ms (median), {late * 1000:.0f} ms (p99)"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        asyncio.run(hold(sys.argv[2]))
    else:
        sys.exit(asyncio.run(main()))
