"""Waiting workers cost little: as many of them look as there are jobs, and the others sleep."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis

import penstock
from penstock import NewJob
from penstock.engines.records import waiting
from penstock.engines.records.postgres import looking
from penstock.engines.records.redis import finding, reading
from penstock.ports.records import Wanted
from penstock.ports.wakes import Heard, Waiter
from penstock.runtime.tasks import let_others_run
from penstock.testing.conformance.record_steps import candidates
from tests.records.waiters import Counted, CountingRedis, Crowd, counted
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

ROOT = Path(__file__).resolve().parents[2]
HANDLES = 24
PROCESSES = 3
JOBS = 30
TURNS_PER_JOB_MAX = 2
"""The claim that gets it, and the one with which its worker finds that there is no other."""
STRAYS = JOBS // 2
"""On a busy machine one who was not woken may believe that nobody else comes. When all were woken,
there were 24 claims per job."""
HANG_SECONDS = 60.0
NEVER_SECONDS = 3_600.0
HELD_SECONDS = 1.5
LONG_SECONDS = 600.0


@pytest.fixture(
    params=["redis", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]
)
def url(request: pytest.FixtureRequest) -> str:
    """Of a queue of the test's own."""
    if request.param == "redis":
        server: Redis = request.getfixturevalue("redis_server")
        return f"{server.url}?prefix={uuid4().hex}"
    postgres: Postgres = request.getfixturevalue("postgres_server")
    return postgres.new_database()


@pytest.fixture
def only_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not told does not look in the time of a test."""
    monkeypatch.setattr(waiting, "LOOK_SECONDS_MAX", NEVER_SECONDS)


@pytest.mark.asyncio
async def test_24_waiting_handles_take_two_turns_per_job_at_most(url: str) -> None:
    async with penstock.open(url) as queue, Crowd(url, HANDLES) as crowd:
        await all_wait(url, HANDLES)
        before = crowd.asked
        for _ in range(JOBS):
            await queue.call("work")
        await all_wait(url, HANDLES)
        spent = crowd.asked - before
    assert spent["claims"] <= JOBS * TURNS_PER_JOB_MAX + STRAYS, spent
    assert spent["looks"] <= HANDLES * JOBS / 2, spent


@pytest.mark.asyncio
async def test_24_handles_in_several_processes_take_two_turns_per_job_at_most(url: str) -> None:
    async with penstock.open(url) as queue, AsyncExitStack() as stack:
        each = HANDLES // PROCESSES
        processes = [await stack.enter_async_context(_process(url, each)) for _ in range(PROCESSES)]
        await all_wait(url, HANDLES)
        before = await _asked(processes)
        for _ in range(JOBS):
            await queue.call("work")
        await all_wait(url, HANDLES)
        spent = await _asked(processes) - before
    assert spent["claims"] <= JOBS * TURNS_PER_JOB_MAX + STRAYS, spent


@pytest.mark.asyncio
async def test_who_waits_for_other_work_does_not_even_look(url: str) -> None:
    async with penstock.open(url) as queue, Crowd(url, 4, ["other"]) as others:
        await all_wait(url, 4)
        before = others.asked
        async with Crowd(url, 2, ["work"]):
            await all_wait(url, 6)
            for _ in range(JOBS):
                await queue.call("work")
        spent = others.asked - before
    # They look from time to time, whatever happens.
    assert spent["claims"] == 0, spent
    assert spent["looks"] < JOBS, spent


@pytest.mark.asyncio
async def test_jobs_of_one_batch_wake_a_waiter_each(url: str, only_woken: None) -> None:
    async with penstock.open(url) as queue, AsyncExitStack() as stack:
        handles = [await stack.enter_async_context(penstock.open(url)) for _ in range(4)]
        claims = [asyncio.ensure_future(one.claim(wait_seconds=LONG_SECONDS)) for one in handles]
        await all_wait(url, 4)
        await queue.enqueue_many([NewJob("work") for _ in range(4)])
        async with asyncio.timeout(HANG_SECONDS):
            assert [len(jobs) for jobs in await asyncio.gather(*claims)] == [1, 1, 1, 1]


@pytest.mark.asyncio
@pytest.mark.xdist_group("postgres")
async def test_what_another_was_woken_for_is_left_to_it(
    postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes to wait meanwhile sees the job, and that it is not the first to know."""
    url = postgres_server.new_database()
    first, second = counted(url), counted(url)
    async with penstock.open(store=first), penstock.open(store=second) as other:
        waiter, wanted = (
            Waiter("first", stays=False),
            Wanted("default", None, frozenset(), None, 0, 1),
        )
        async with asyncio.timeout(HANG_SECONDS):
            for store in (first, second):
                while not (await store.changed(0)).is_for_all:
                    await let_others_run()
        assert (await first.next_due(wanted, waiter)).ahead == 0
        await other.enqueue("work")
        monkeypatch.setattr(looking, "WOKEN_SECONDS", NEVER_SECONDS)
        assert (await second.next_due(wanted, Waiter("second", stays=False))).ahead == 1
        monkeypatch.setattr(looking, "WOKEN_SECONDS", 0.0)
        assert (await second.next_due(wanted, Waiter("second", stays=False))).ahead == 0


@pytest.mark.asyncio
async def test_a_waiter_that_has_left_passes_its_wake_up_on(url: str, only_woken: None) -> None:
    async with penstock.open(url) as gone, penstock.open(url) as waiter:
        leaving = asyncio.ensure_future(gone.claim(wait_seconds=LONG_SECONDS))
        await all_wait(url, 1)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        claim = asyncio.ensure_future(waiter.claim(wait_seconds=LONG_SECONDS))
        await all_wait(url, 2)
        await gone.enqueue("work", id="new")
        async with asyncio.timeout(HANG_SECONDS):
            assert [job.id for job in await claim] == ["new"]


@pytest.mark.asyncio
async def test_a_waiter_whose_process_was_killed_is_passed_over(url: str, only_woken: None) -> None:
    async with penstock.open(url) as queue:
        async with _process(url, 1) as process:
            await all_wait(url, 1)
            process.kill()
            await process.wait()
        # Redis finds out when it tells it, PostgreSQL when it notes another.
        stale = 1 if url.startswith("redis") else 0
        await all_wait(url, stale)
        claim = asyncio.ensure_future(queue.claim(wait_seconds=LONG_SECONDS))
        await all_wait(url, stale + 1)
        async with penstock.open(url) as other:
            await other.enqueue("work", id="new")
        async with asyncio.timeout(HANG_SECONDS):
            assert [job.id for job in await claim] == ["new"]


@pytest.mark.asyncio
async def test_a_wake_up_that_nobody_acts_on_costs_a_bounded_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is woken hears it and dies at that moment."""
    monkeypatch.setattr(waiting, "LOOK_SECONDS_MAX", 0.2)
    store = counted(url)
    _deafen(store, monkeypatch)
    async with penstock.open(store=store) as deaf, penstock.open(url) as queue:
        hung = asyncio.ensure_future(deaf.claim(types=["work"], wait_seconds=LONG_SECONDS))
        await all_wait(url, 1)
        monkeypatch.setattr(store, "next_due", _never)
        monkeypatch.setattr(store, "turn", _never)
        claim = asyncio.ensure_future(queue.claim(wait_seconds=LONG_SECONDS))
        await all_wait(url, 2)
        async with penstock.open(url) as other:
            await other.enqueue("work", id="new")
        async with asyncio.timeout(HANG_SECONDS):
            assert [job.id for job in await claim] == ["new"]
        hung.cancel()
        await asyncio.gather(hung, return_exceptions=True)


@pytest.mark.asyncio
async def test_what_a_dead_process_has_reserved_is_not_claimed_again_and_again(
    redis_server: Redis,
) -> None:
    url = f"{redis_server.url}?prefix={uuid4().hex}"
    store, dead = counted(url), counted(url)
    async with penstock.open(store=store) as queue:
        await queue.enqueue("work")
        await dead.open()
        await _reserve(dead)
        assert await queue.claim(wait_seconds=HELD_SECONDS) == []
        await dead.close()
    # Before it waits, and when its time is up.
    assert store.counting.asked["claims"] == 2


@pytest.mark.asyncio
async def test_what_a_dead_process_has_reserved_is_claimed_when_that_ends(
    redis_server: Redis, monkeypatch: pytest.MonkeyPatch, only_woken: None
) -> None:
    for module in (finding, reading):
        monkeypatch.setattr(module, "RESERVED_MS", 500)
    url = f"{redis_server.url}?prefix={uuid4().hex}"
    store, dead = counted(url), counted(url)
    async with penstock.open(store=store) as queue:
        await queue.enqueue("work", id="late")
        await dead.open()
        await _reserve(dead)
        assert [job.id for job in await queue.claim(wait_seconds=LONG_SECONDS)] == ["late"]
        await dead.close()
    assert store.counting.asked["claims"] == 2


@pytest.mark.asyncio
@pytest.mark.xdist_group("postgres")
async def test_what_another_has_locked_is_tried_less_and_less_often(
    postgres_server: Postgres,
) -> None:
    url = postgres_server.new_database()
    store = counted(url)
    async with penstock.open(store=store) as queue:
        await queue.enqueue("work")
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("SELECT FROM penstock.jobs FOR UPDATE")
            assert await queue.claim(wait_seconds=HELD_SECONDS) == []
    # At first, again, after a quarter of a second, half a second and a second, and in the end.
    assert store.counting.asked["claims"] <= 6


async def all_wait(url: str, count: int) -> None:
    """Until so many are on the list of those who wait."""
    async with asyncio.timeout(HANG_SECONDS):
        while await asyncio.to_thread(_waiting, url) != count:
            await let_others_run()


@asynccontextmanager
async def _process(url: str, handles: int) -> AsyncIterator[Process]:
    command = (sys.executable, "-m", "tests.records.waiters", url, str(handles))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _asked(processes: Sequence[Process]) -> Counter[str]:
    asked: Counter[str] = Counter()
    for process in processes:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        asked.update(json.loads(await process.stdout.readline()))
    return asked


async def _reserve(store: Counted) -> None:
    """A turn that finds what is due, and is never heard of again."""
    assert isinstance(store, CountingRedis)
    await store._find(lambda head: candidates(due_by=float(2**40)), only_looks=False)


def _deafen(store: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on it hears that it is woken, and does nothing about it."""
    hear = store.changed

    async def changed(timeout_seconds: float) -> Heard:
        heard = await hear(timeout_seconds)
        return Heard(heard.is_news, heard.is_for_all)

    monkeypatch.setattr(store, "changed", changed)


async def _never(*arguments: Any, **options: Any) -> Any:
    await asyncio.get_running_loop().create_future()


def _waiting(url: str) -> int:
    if url.startswith("redis"):
        server, _, prefix = url.partition("?prefix=")
        with redis.Redis.from_url(server) as client:
            return int(client.zcard(f"{{{prefix}}}/line"))
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM penstock.waiters"
            " WHERE woken_at IS NULL AND EXISTS (SELECT FROM pg_stat_get_activity(session))"
        ).fetchone()
    assert row is not None
    return int(row[0])
