"""A loop that contains the exits of what is started in some blocks."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.errors import ChildExited
from penstock.runtime.exits import contained_children, containing_loop


async def leave() -> None:
    sys.exit(3)


async def test_an_exit_within_the_block_is_an_error_of_its_task() -> None:
    with containing_loop(), contained_children():
        task = asyncio.create_task(leave())
        with pytest.raises(ChildExited, match="SystemExit: 3") as raised:
            await task
    assert isinstance(raised.value.__cause__, SystemExit)


async def test_the_factory_that_was_there_makes_the_tasks_and_is_there_again_afterwards() -> None:
    made: list[asyncio.Task[Any]] = []
    loop = asyncio.get_running_loop()

    def make(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        made.append(asyncio.Task(work, loop=loop, **options))
        return made[-1]

    loop.set_task_factory(make)  # type: ignore[arg-type]
    try:
        with containing_loop(), contained_children():
            task = asyncio.create_task(leave(), name="mine")
            await asyncio.wait([task])
        assert made == [task]
        assert task.get_name() == "mine"
        assert isinstance(task.exception(), ChildExited)
        assert loop.get_task_factory() is make
    finally:
        loop.set_task_factory(None)


async def test_of_two_blocks_that_end_in_any_order_the_last_restores_the_loop() -> None:
    loop = asyncio.get_running_loop()
    first, second = containing_loop(), containing_loop()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with contained_children():
        task = asyncio.create_task(leave())
        await asyncio.wait([task])
    assert isinstance(task.exception(), ChildExited)
    second.__exit__(None, None, None)
    assert loop.get_task_factory() is None


async def test_a_task_that_is_cancelled_before_its_first_step_says_nothing() -> None:
    with warnings.catch_warnings(), containing_loop(), contained_children():
        warnings.simplefilter("error")
        task = asyncio.create_task(leave())
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        del task
        gc.collect()


async def test_a_contained_task_is_shown_by_the_name_of_what_it_runs() -> None:
    with containing_loop(), contained_children():
        task = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        assert "Event.wait() running at" in repr(task)
        assert task.get_stack()
        task.cancel()
        await asyncio.wait([task])
