"""Processes that work on one folder and are killed in the middle: nothing told is lost."""

from __future__ import annotations

from pathlib import Path

import penstock
from penstock.address import parse
from penstock.insights.stored import StoredState
from penstock.wiring import open_store
from tests.records.toiling import expect_nothing_lost, one_is_killed


async def test_of_two_processes_one_is_killed_and_the_other_does_its_work(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/queue?layout=tasks&fsync=off&clock_skew_seconds=0"
    told = await one_is_killed(url)
    async with penstock.open(url) as queue:
        await expect_nothing_lost(queue, told)
        await queue.repair()
    await _expect_sound(url)


async def _expect_sound(url: str) -> None:
    store = open_store(parse(url, {}))
    try:
        checks = [check async for check in StoredState(store).run()]
    finally:
        await store.close()
    wrong = [check for check in checks if check.verdict == "fail"]
    assert not wrong, wrong
