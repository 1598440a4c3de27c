"""A folder queue and the command line on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.client.blocking import BlockingQueue
from tests.cli.running import Penstock

TASKS = """
import asyncio
import threading
from pathlib import Path

import penstock

app = penstock.App()
not_an_app = 7


@app.task
async def add(a: int, b: int) -> int:
    return a + b


@app.task
async def fail() -> None:
    raise penstock.Permanent("it was never going to work")


@app.task
async def hang() -> None:
    print("the handler hangs", flush=True)
    await asyncio.Event().wait()


@app.task
def stubborn() -> None:
    print("the thread hangs", flush=True)
    threading.Event().wait()


@app.task
async def brief() -> None:
    print("the handler is at work", flush=True)
    await asyncio.to_thread(Path("gate").read_bytes)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands are run: the module `tasks` is there, the queue is not.

    Whoever reads the pipe `gate` waits until the test writes to it.
    """
    (tmp_path / "tasks.py").write_text(TASKS)
    os.mkfifo(tmp_path / "gate")
    return tmp_path


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "queue")


@pytest.fixture
def run(url: str) -> Penstock:
    return Penstock(url)


@pytest.fixture
def queue(url: str) -> Iterator[BlockingQueue]:
    with penstock.open_sync(url) as opened:
        yield opened


@pytest.fixture
def failed_id(queue: BlockingQueue) -> str:
    """A job that has failed for good."""
    receipt = queue.enqueue("resize", {"id": 7}, queue="images")
    [job] = queue.claim(1, worker="w1")
    queue.nack(job, "the disk is on fire", retry=False)
    assert isinstance(receipt.id, str)
    return receipt.id
