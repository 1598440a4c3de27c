"""Making a queue deep, and waiting until it has digested that."""

from __future__ import annotations

import asyncio
from typing import Final

import penstock
from bench.load import JOB_TYPE, PAYLOAD

JOBS_PER_CALL: Final = 5_000


async def fill(queue: penstock.Queue, jobs: int) -> None:
    for first in range(0, jobs, JOBS_PER_CALL):
        count = min(JOBS_PER_CALL, jobs - first)
        await queue.enqueue_many([penstock.NewJob(JOB_TYPE, PAYLOAD) for _ in range(count)])


async def settled() -> None:
    """Returns when no checkpoint is being written beside the commits."""
    while busy := [task for task in asyncio.all_tasks() if ": checkpoint" in task.get_name()]:
        await asyncio.wait(busy)
