"""Processes and servers that are killed in the middle: nothing told is lost or doubled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

import penstock
from penstock.address import parse
from penstock.insights.stored_records import StoredRecords
from penstock.runtime.services import Services
from penstock.wiring import open_records
from tests.records.toiling import (
    KILLED_AFTER,
    Told,
    answer,
    expect_nothing_lost,
    finish,
    one_is_killed,
    rest,
    toiler,
)
from tests.servers.redis import Redis, own_redis

SERVER_KILLS = 2
# Turns that overlap have no one order.
NOT_PROMISED = {"claims follow the order"}


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/queue.db?clock_skew_seconds=0"
    server: Redis = request.getfixturevalue("redis_server")
    return f"{server.url}?prefix={uuid4().hex}&clock_skew_seconds=0"


async def test_of_two_processes_one_is_killed_and_the_other_does_its_work(url: str) -> None:
    await _judge(url, await one_is_killed(url))


async def test_a_redis_that_is_killed_and_restarted_loses_nothing_it_has_acknowledged(
    tmp_path: Path,
) -> None:
    with own_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        url = f"{server.url}?clock_skew_seconds=0"
        async with asyncio.timeout(120):
            toilers = [await toiler(url, name) for name in ("one", "other")]
            told: Told = []
            for _ in range(SERVER_KILLS):
                told += [await answer(one) for one in toilers for _ in range(KILLED_AFTER)]
                server.kill()
                server.start()
            told += [await answer(one) for one in toilers for _ in range(KILLED_AFTER)]
            for one in toilers:
                one.terminate()
                told += await rest(one)
            await finish(url)
        await _judge(url, told)


async def _judge(url: str, told: Told) -> None:
    async with penstock.open(url) as queue:
        await expect_nothing_lost(queue, told)
        is_ordered = queue.capabilities.order == "strict"
    await _expect_sound(url, set() if is_ordered else NOT_PROMISED)


async def _expect_sound(url: str, not_promised: set[str]) -> None:
    store = open_records(parse(url, {}), Services())
    try:
        checks = [check async for check in StoredRecords(store).run()]
    finally:
        await store.close()
    assert {check.check for check in checks if check.verdict != "ok"} <= not_promised, checks
