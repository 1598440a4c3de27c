"""Work in the background: it does not die of an error that nobody foresaw, and says so."""

from __future__ import annotations

import asyncio

import pytest

from penstock.runtime import tasks
from penstock.runtime.tasks import TaskSet


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "AGAIN_SECONDS", 0.0)


async def test_work_that_has_to_go_on_begins_again_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[int] = []

    async def work() -> str:
        tries.append(len(tries))
        if len(tries) < 3:
            raise KeyError("unforeseen")
        return "done"

    kept = TaskSet("owner")
    assert await kept.keep("the work", work) == "done"
    assert len(tries) == 3
    assert sum("the work failed" in record.message for record in caplog.records) == 2
    await kept.stop()


async def test_work_ends_with_the_errors_that_it_may_end_with() -> None:
    async def work() -> None:
        raise ValueError("foreseen")

    kept = TaskSet("owner")
    task = kept.keep("the work", work, ends_with=(ValueError,))
    with pytest.raises(ValueError, match="foreseen"):
        await task
    with pytest.raises(ValueError, match="foreseen"):
        await kept.stop()


async def test_work_that_has_to_go_on_can_be_stopped() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    kept = TaskSet("owner")
    task = kept.keep("the work", work)
    await kept.stop()
    assert task.cancelled()
