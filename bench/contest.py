"""How workers are compared: what is timed, from when to when.

*Enqueued*: from the first enqueue to the answer to the last, in a process of its own.
*Drained*: from the start of the first handler to the moment when the queue's own records have no
job left that waits or runs. Rivals are asked for it only after the last handler was called, so
that asking costs the run nothing; penstock's worker ends when its last ack is durable.

It needs the standard library alone, because rivals run it in an environment of their own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

LOOK_SECONDS: Final = 0.001
BATCH: Final = 1_000
"""How many jobs go into one call of those that can enqueue many at once."""
BATCHES_AT_ONCE: Final = 2
"""How many such calls an async client keeps under way: one is prepared while another is written."""
CLIENT_TASKS: Final = 64
"""How many calls an async client without such a call keeps under way."""


async def in_batches(jobs: int, senders: Sequence[Callable[[int], Awaitable[object]]]) -> float:
    """How long they take together, each of whom enqueues so many as it is told at a time."""
    counts = iter([min(BATCH, jobs - start) for start in range(0, jobs, BATCH)])

    async def call(send: Callable[[int], Awaitable[object]]) -> None:
        for count in counts:
            await send(count)

    started_at = time.perf_counter()
    await asyncio.gather(*map(call, senders))
    return time.perf_counter() - started_at


class Calls:
    """Counts the calls of a handler, which does nothing else."""

    def __init__(self, jobs: int) -> None:
        self.last_called = threading.Event()
        self._jobs = jobs
        # Its `next` is atomic, which `+= 1` in several threads would not be.
        self._numbers = itertools.count(1)
        self._first_at = 0.0

    def count(self) -> None:
        number = next(self._numbers)
        if number == 1:
            self._first_at = time.perf_counter()
        if number == self._jobs:
            self.last_called.set()

    @property
    def seconds(self) -> float:
        """Since the first."""
        return time.perf_counter() - self._first_at


def counted(jobs: int, left: Callable[[], int]) -> Calls:
    """Calls after the last of which, when nothing is left, the process says how long and ends."""
    calls = Calls(jobs)

    def watch() -> None:
        calls.last_called.wait()
        while left():
            time.sleep(LOOK_SECONDS)
        say(calls.seconds)
        # Most workers would wait for more, and some would take their time to stop.
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    return calls


def say(seconds: float) -> None:
    print(json.dumps({"seconds": seconds}), flush=True)
