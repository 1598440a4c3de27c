"""What calls of one job cost, in calls of functions: these are the same on every machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Final

import penstock

CALLERS: Final = 64
JOBS: Final = 512

ENQUEUE_CALLS_MAX: Final = 122
CLAIM_AND_ACK_CALLS_MAX: Final = 265
"""A little more than it takes, so that what joins the hot path is noticed: see ADR 16."""


async def test_calls_of_one_job_take_few_calls_of_functions() -> None:
    async with penstock.open("memory://") as queue:

        async def enqueue() -> None:
            await queue.enqueue("send", {"to": "user@example.com", "n": 12345})

        async def claim_and_ack() -> None:
            [job] = await queue.claim()
            await queue.ack(job)

        assert await counted_calls(enqueue) <= ENQUEUE_CALLS_MAX
        assert await counted_calls(claim_and_ack) <= CLAIM_AND_ACK_CALLS_MAX


async def counted_calls(do: Callable[[], Awaitable[None]]) -> float:
    """How many functions are called per job when many do this at the same time."""
    turns, calls = iter(range(JOBS)), 0

    async def work() -> None:
        for _ in turns:
            await do()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await asyncio.gather(*(work() for _ in range(CALLERS)))
    finally:
        sys.setprofile(before)
    return calls / JOBS
