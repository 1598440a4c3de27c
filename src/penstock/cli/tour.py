"""The tour: a queue in a folder, two worker processes, one of which is killed, and the accounts.

Every job must be accounted for in the end, by the counts of the queue and by its events, or the
tour has failed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from penstock.cli import tour_tasks
from penstock.cli.tour_costs import FOLDER_VARIABLE, Meter, Spent, noted
from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import PenstockError
from penstock.insights.probes import percentile
from penstock.insights.wording import counted
from penstock.kernel.events import Completed, Enqueued, Expired, Failed
from penstock.runtime.services import Services

LEASE_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.1
TOUR_SECONDS_MAX: Final = 90.0


class Kind(Struct, frozen=True):
    story: str
    share: float
    """Of all jobs."""
    ends: str = "completed"


KINDS: Final = {
    "quick": Kind("just run", 0.80),
    "slow": Kind("take 20 ms", 0.08),
    "flaky": Kind("fail once, then succeed", 0.05),
    "hopeless": Kind("fail until given up", 0.01, "failed"),
    "scheduled": Kind("due after three seconds", 0.03),
    "urgent": Kind("enqueued last, run first", 0.02),
    "repeated": Kind("enqueued twice, run once", 0.01),
}


class Account(Struct, frozen=True):
    type: str
    story: str
    jobs: int
    ends: str
    ended: int
    """So, as it should."""


class Told(Struct, frozen=True):
    """What the tour can tell in the end."""

    accounts: list[Account]
    jobs: int
    duplicates: int
    seconds: float
    taken_back: int
    """Leases of the killed worker that ran out."""
    p50_seconds: float
    p99_seconds: float
    """From the start of the last attempt to the end of the job."""
    commits: int
    requests: Spent
    """Of all processes; of the killed worker until shortly before its end."""
    dollars_on_s3: float
    complete: bool


class TourTookTooLong(PenstockError):
    def __init__(self, left: int) -> None:
        super().__init__(f"{counted(left, 'job')} had not ended after {TOUR_SECONDS_MAX:g} s")


class WorkerEnded(PenstockError):
    def __init__(self, code: int, words: str) -> None:
        super().__init__(f"the worker ended by itself with exit code {code}: {words}")


class Tour:
    def __init__(self, queue: Queue, url: str, jobs: int, meter: Meter, folder: Path) -> None:
        self._queue = queue
        self._url = url
        self._clock = Services().clock
        self._meter = meter
        self._folder = folder
        """For what the workers leave: their complaints, and the counts of their requests."""
        self._complaints = folder / "worker.log"
        self._counts = {name: max(int(jobs * kind.share), 1) for name, kind in KINDS.items()}

    @property
    def jobs(self) -> int:
        return sum(self._counts.values())

    async def enqueue(self, done: Callable[[int], None]) -> int:
        """All jobs, and the repeated ones again; answers how many were known already."""
        duplicates = 0
        for name in [*self._counts, "repeated"]:
            for start in range(0, self._counts[name], 1_000):
                numbers = range(start, min(start + 1_000, self._counts[name]))
                receipts = await self._queue.enqueue_many(
                    [_job(name, number) for number in numbers]
                )
                duplicates += sum(getattr(each, "status", "") == "duplicate" for each in receipts)
                done(len(receipts))
        return duplicates

    async def work(self, done: Callable[[int], None], say: Callable[[str], None]) -> None:
        """Runs everything, with a worker that is killed half-way and one that takes over."""
        worker = await self._worker()
        say(f"a worker runs, process {worker.pid}")
        killed = False
        try:
            async with asyncio.timeout(TOUR_SECONDS_MAX):
                ended = 0
                while ended < self.jobs:
                    await self._clock.sleep(LOOK_SECONDS)
                    if worker.returncode is not None:
                        raise WorkerEnded(worker.returncode, self._last_words())
                    now = await self._ended()
                    done(now - ended)
                    ended = now
                    if not killed and ended >= self.jobs // 2:
                        killed = True
                        worker.kill()
                        await worker.wait()
                        say(f"half-way: worker {worker.pid} was killed with SIGKILL")
                        worker = await self._worker()
                        say(f"another takes over, process {worker.pid}")
        except TimeoutError:
            raise TourTookTooLong(self.jobs - await self._ended()) from None
        finally:
            if worker.returncode is None:
                worker.terminate()
            await worker.wait()

    async def accounts(self, duplicates: int, seconds: float) -> Told:
        """Counted twice: from the events, and by the queue itself."""
        ended: Counter[tuple[str, str]] = Counter()
        enqueued: Counter[str] = Counter()
        taken_back = 0
        runs: list[float] = []
        async for event in self._queue.events("beginning", follow=False):
            match event:
                case Enqueued():
                    enqueued[event.type] += 1
                case Completed() | Failed():
                    ended[event.type, event.event] += 1
                    if event.started_at is not None:
                        runs.append(event.at - event.started_at)
                case Expired():
                    taken_back += 1
                case _:
                    pass
        accounts = [
            Account(name, kind.story, enqueued[name], kind.ends, ended[name, kind.ends])
            for name, kind in KINDS.items()
        ]
        stats = await self._queue.stats()
        spent = self._meter.spent.plus(noted(self._folder))
        expected = Counter[str]()
        for account in accounts:
            expected[account.ends] += self._counts[account.type]
        fits = all(each.jobs == each.ended == self._counts[each.type] for each in accounts)
        return Told(
            accounts=accounts,
            jobs=self.jobs,
            duplicates=duplicates,
            seconds=seconds,
            taken_back=taken_back,
            p50_seconds=percentile(runs, 0.5),
            p99_seconds=percentile(runs, 0.99),
            commits=stats.commit,
            requests=spent,
            dollars_on_s3=spent.dollars,
            complete=fits and Counter(stats.totals) == expected,
        )

    async def _ended(self) -> int:
        totals = (await self._queue.stats()).totals
        return sum(totals.get(state, 0) for state in ("completed", "failed", "cancelled"))

    def _last_words(self) -> str:
        lines = self._complaints.read_text("utf-8", "replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    async def _worker(self) -> Process:
        counted = {FOLDER_VARIABLE: str(self._folder)} if self._meter.is_counting else {}
        with self._complaints.open("ab") as complaints:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", "penstock", "worker", f"{tour_tasks.__name__}:app",
                "--url", self._url, "--lease-seconds", str(LEASE_SECONDS), "--concurrency", "256",
                "--log-level", "warning", stdin=DEVNULL, stdout=DEVNULL, stderr=complaints,
                env={**os.environ, **counted},
            )  # fmt: skip


def _job(name: str, number: int) -> NewJob:
    new: Any = tour_tasks.app.tasks[name].job(number=number)
    if name == "repeated":
        new.id = f"repeated-{number}"
    assert isinstance(new, NewJob)
    return new
