"""A failure says in the log what it is about: at WARNING if more follows, at ERROR if not."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import penstock
from penstock.cli.logs import JsonFormatter, TextFormatter
from penstock.testing.kit import Kit


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.name.startswith("penstock.")]


async def test_failures_are_logged_by_whether_they_are_final(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(max_attempts=2, retry=penstock.RetryPolicy(initial_seconds=0, max_seconds=0))
    async def bad() -> None:
        raise ValueError("no")

    receipt = await bad.options(trace="t-1").enqueue()
    await kit.drain()
    first, last = [one for one in records(caplog) if "ValueError: no" in one.getMessage()]
    assert (first.levelname, last.levelname) == ("WARNING", "ERROR")
    assert "again in 0.0 s" in first.getMessage()
    assert last.exc_info is not None
    text, words = TextFormatter().format(first), json.loads(JsonFormatter().format(last))
    expected = {
        "task": "bad", "job": receipt.id, "tenant": "default", "queue": "default", "trace": "t-1",
    }  # fmt: skip
    assert {name: words[name] for name in expected} == expected
    assert (words["attempt"], words["level"]) == (2, "error")
    assert "in bad" in words["exception"]
    for name, value in {**expected, "attempt": 1}.items():
        assert f"{name}={value}" in text


@pytest.mark.parametrize("attempts", [1, 2])
async def test_an_error_can_neither_forge_a_line_nor_command_the_terminal(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture, attempts: int
) -> None:
    forged = "12:00:00 INFO    all is well"

    @app.task(max_attempts=attempts)
    async def bad() -> None:
        raise ValueError(f"no\n{forged}\x1b[2J\r{forged}\u2028{forged}")

    await bad.enqueue()
    await kit.drain()
    [record] = [one for one in records(caplog) if "ValueError" in one.getMessage()]
    lines = TextFormatter().format(record).split("\n")
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if not line.startswith("  ")] == [lines[0]]
    assert f"ValueError: no {forged} [2J {forged}" in lines[0]


async def test_every_ending_is_a_line_for_those_who_want_to_know(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(max_attempts=1)
    async def work(good: bool) -> None:
        if not good:
            raise ValueError

    await work.enqueue(good=True)
    await kit.drain()
    assert not records(caplog)
    caplog.set_level("DEBUG", logger="penstock.worker")
    receipts = [await work.enqueue(good=True), await work.enqueue(good=False)]
    await kit.drain()
    said = {
        words["job"]: (words["message"].split(" after ")[0], words["task"], words["attempt"])
        for words in (json.loads(JsonFormatter().format(one)) for one in records(caplog))
        if "seconds" in words
    }
    assert said == {
        receipts[0].id: ("job completed", "work", 1),
        receipts[1].id: ("job failed", "work", 1),
    }


async def test_the_fields_of_a_jobs_own_lines_survive(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def work(context: penstock.JobContext) -> None:
        context.logger.warning("half", extra={"size": 3})

    receipt = await work.enqueue()
    await kit.drain()
    [line] = [one for one in records(caplog) if one.name == "penstock.task.work"]
    words = json.loads(JsonFormatter().format(line))
    assert (words["job"], words["task"], words["size"]) == (receipt.id, "work", 3)
    assert f"job={receipt.id}" in TextFormatter().format(line)
    assert "size=3" in TextFormatter().format(line)


async def test_a_traceback_shows_the_handlers_own_frames_and_not_the_workers(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and as it is kept; also through middleware, and of the errors behind it."""

    @app.around_job
    async def explain(context: penstock.JobContext, proceed: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await proceed()
        except KeyError as error:
            raise RuntimeError("explained") from error

    @app.task(max_attempts=1)
    def plain() -> None:
        raise ExceptionGroup("several", [ValueError("one")])

    @app.task(max_attempts=1)
    async def in_the_loop() -> None:
        raise KeyError("missing")

    receipts = [await plain.enqueue(), await in_the_loop.enqueue()]
    await kit.drain()
    kept = [(await kit.queue.failures(receipt.id))[0].traceback for receipt in receipts]
    logged = [TextFormatter().format(one) for one in records(caplog) if one.levelname == "ERROR"]
    for text in (*kept, *logged):
        assert text is not None
        assert "in explain" in text
        for machinery in ("penstock/worker", "penstock/app", "concurrent/futures"):
            assert machinery not in text.replace(os.sep, "/")
    assert "in plain" in str(kept[0])
    assert "ValueError: one" in str(kept[0])
    assert "in in_the_loop" in str(kept[1])
    assert "RuntimeError: explained" in str(kept[1])
