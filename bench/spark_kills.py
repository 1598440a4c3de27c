"""A DataFrame's driver is killed around its one commit: none of its jobs are there, or all are.

Each time the same run is written again afterwards, and then every job is there once.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import penstock
from bench.figures import Row, passed
from bench.plan import Plan, isolated

JOBS: Final = 1_000_000
QUICK_JOBS: Final = 100_000
MASTER: Final = "local[2]"
RUN: Final = "today"
RUN_SECONDS_MAX: Final = 600
NOWHERE: Final = "nowhere"
PLACES: Final = {
    "while tasks write": ("task", "none"),
    "before the commit": ("before:1", "none"),
    "after the commit": ("after:1", "all"),
    "before Spark knows": ("end", "all"),
}


def measure(plan: Plan) -> list[Row]:
    jobs = plan.scaled(JOBS, QUICK_JOBS)
    return [_row(plan, jobs, name, *place) for name, place in PLACES.items()]


def _row(plan: Plan, jobs: int, name: str, place: str, expected: str) -> Row:
    plan.say(f"the driver is killed {name}")
    with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
        url = f"{(Path(folder) / 'queue').as_uri()}?fsync=off"
        _write(url, jobs, place, -signal.SIGKILL)
        left = isolated(_pending, url)
        _write(url, jobs, NOWHERE, 0)
        is_each_once = isolated(_is_each_once, url, jobs)
    said = {0: "none", jobs: "all"}.get(left, f"{left:,}")
    afterwards = "each once" if is_each_once else "NOT each once"
    return Row(
        f"{jobs:,} jobs from a DataFrame, its driver killed {name}",
        f"{said}; written again: {afterwards}",
        bar=f"{expected}; each once",
        verdict=passed(said == expected and is_each_once),
    )


def _write(url: str, jobs: int, place: str, code: int) -> None:
    program = (sys.executable, "-m", "tests.pipeline.troubled_write", MASTER, url, RUN)
    ran = subprocess.run(
        [*program, str(jobs), place],
        timeout=RUN_SECONDS_MAX,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != code:
        raise RuntimeError(f"ended with {ran.returncode}, not {code}: {ran.stderr[-2000:]}")


def _pending(url: str) -> int:
    async def read() -> int:
        async with penstock.open(url) as queue:
            return (await queue.stats()).totals.get("pending", 0)

    return asyncio.run(read())


def _is_each_once(url: str, jobs: int) -> bool:
    async def read() -> bool:
        seen = bytearray(jobs)
        async with penstock.open(url) as queue:
            async for job in queue.jobs():
                seen[job.payload["n"]] += 1
        return set(seen) == {1}

    return asyncio.run(read())
