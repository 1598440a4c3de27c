"""An app whose handlers run on executors."""

from __future__ import annotations

import os

import penstock

app = penstock.App("memory://")
at_once = penstock.RetryPolicy(initial_seconds=0.01)


@app.task(retry=at_once)
async def square(number: int) -> int:
    return number * number


@app.task(retry=at_once, max_attempts=2)
def stumble(context: penstock.JobContext, number: int) -> int:
    if context.attempt == 1:
        raise ValueError(f"{number} stumbles once")
    return number


@app.task(cpu=True)
def in_a_process(number: int) -> tuple[int, int]:
    return number, os.getpid()


@app.task(retry=at_once)
def pass_gate(told: str, gate: str) -> int:
    """Tells which process it is in, then waits for somebody to open the gate; both are pipes."""
    with open(told, "wb") as pipe:  # noqa: PTH123  # a pipe, not a file
        pipe.write(b"%08d" % os.getpid())
    os.close(os.open(gate, os.O_RDONLY))
    return os.getpid()
