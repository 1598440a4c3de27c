"""Tasks that run in processes. A child imports them from here."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

import penstock

app = penstock.App("memory://")


class Square(msgspec.Struct):
    side: int


class Touchy(Exception):
    """Can't be made again from its message."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


@app.task(cpu=True)
def area(square: Square) -> int:
    return square.side**2


@app.task(cpu=True)
def read(path: str) -> str:
    """Blocks until somebody writes."""
    return Path(path).read_text()


@app.task(cpu=True)
def tell_and_read(told: str, path: str) -> str:
    Path(told).write_text(str(os.getpid()))
    return Path(path).read_text()


@app.task(cpu=True, max_attempts=1)
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(cpu=True, max_attempts=1)
def leave() -> None:
    sys.exit(3)


@app.task(cpu=True)
def ask_for_a_retry() -> None:
    raise penstock.Retry("busy", after=90)


@app.task(cpu=True, max_attempts=1)
def be_touchy() -> None:
    raise Touchy("this", "that")


@app.task(cpu=True, max_attempts=1)
def return_a_function() -> object:
    return lambda: None


@app.task(cpu=True)
def where() -> int:
    return os.getpid()


@app.task
async def quick(number: int) -> int:
    return number


@app.task(cpu=True)
def tell_progress(context: penstock.JobContext, number: int) -> list[object]:
    context.progress(0.25)
    context.progress(0.75, "nearly")
    assert penstock.current_job() is context
    return [context.id, context.attempt, number]
