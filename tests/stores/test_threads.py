"""The threads behind the folder adapter."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from penstock.errors import QueueClosed
from penstock.stores.threads import Threads


def running(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def all_ended(name: str) -> bool:
    for thread in running(name):
        thread.join(10)
    return not running(name)


async def test_a_result_comes_back() -> None:
    threads = Threads("result", 2)
    assert await threads.submit(lambda: 6 * 7) == 42
    threads.close()
    assert all_ended("result")


async def test_an_error_comes_back() -> None:
    threads = Threads("error", 2)
    with pytest.raises(ZeroDivisionError):
        await threads.submit(lambda: 1 // 0)
    assert await threads.submit(lambda: "goes on") == "goes on"
    threads.close()


async def test_work_runs_at_the_same_time_up_to_the_limit() -> None:
    threads = Threads("limit", 3)
    together = threading.Barrier(3)
    await asyncio.gather(*(threads.submit(lambda: together.wait(10)) for _ in range(9)))
    assert len(running("limit")) == 3
    threads.close()
    assert all_ended("limit")


async def test_one_after_the_other_needs_one_thread() -> None:
    threads = Threads("one", 3)
    idle = threading.Event()
    for _ in range(20):
        await threads.submit(idle.is_set)
        await asyncio.to_thread(await_idle(threads))
    assert len(running("one")) == 1
    threads.close()


def await_idle(threads: Threads) -> Callable[[], None]:
    """The thread says that it is idle just after it has answered."""

    def wait() -> None:
        assert threads._idle.acquire(timeout=10)
        threads._idle.release()

    return wait


async def test_what_was_submitted_before_closing_is_done() -> None:
    threads = Threads("closing", 1)
    go = threading.Event()
    first = threads.submit(lambda: go.wait(10))
    second = threads.submit(lambda: "done")
    threads.close()
    go.set()
    assert await first
    assert await second == "done"
    with pytest.raises(QueueClosed, match="closed"):
        threads.submit(lambda: None)


async def test_threads_end_with_whoever_forgot_to_close_them() -> None:
    threads = Threads("forgotten", 2)
    await threads.submit(lambda: None)
    del threads
    gc.collect()
    assert all_ended("forgotten")


async def test_an_answer_that_nobody_awaits_disturbs_nobody() -> None:
    threads = Threads("cancelled", 1)
    go = threading.Event()
    abandoned = threads.submit(lambda: go.wait(10))
    abandoned.cancel()
    go.set()
    assert await threads.submit(lambda: "next") == "next"
    threads.close()


def test_a_program_ends_while_a_thread_waits() -> None:
    program = """
import asyncio, threading
from penstock.errors import QueueClosed
from penstock.stores.threads import Threads

async def main():
    threads = Threads("waiting", 1)
    threads.submit(threading.Event().wait)
    await asyncio.sleep(0)

asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0
