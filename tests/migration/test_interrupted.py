"""Killed at any step and run again, a move ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock.client.queue import Queue
from penstock.errors import BeingFilled, MoveUnverified
from penstock.kernel.commands import Adopt
from penstock.kernel.events import Adopted
from penstock.ports.backend import Backend
from tests.migration.ends import (
    AT_ONCE,
    address,
    everything,
    live_a_little,
    migrate,
    opened,
)
from tests.migration.killing import DANGEROUS, Fuse, Killed, die

PAIRS = [
    ("log", "sqlite"),
    ("sqlite", "single"),
    ("single", "memory"),
    ("memory", "log"),
    ("log", "tasks"),
    ("tasks", "sqlite"),
    ("tasks", "tasks"),
]
STEPS_MAX = 40


@pytest.mark.parametrize("answers_are_lost", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("here", "there"), PAIRS, ids="-to-".join)
async def test_a_move_that_is_killed_at_every_step_ends_well(
    here: str, there: str, answers_are_lost: bool, tmp_path: Path
) -> None:
    """One more step each time: what was done before is found, never done twice."""
    source, target = address(here, tmp_path, "a"), address(there, tmp_path, "b")
    async with opened(source) as queue:
        await live_a_little(queue)
    before = await everything(source)
    for step in range(1, STEPS_MAX):
        fuse = Fuse(step, answers_are_lost=answers_are_lost, burn=die)
        try:
            report = await migrate(source, target, wrap=fuse.wrap)
            break
        except Killed:
            assert fuse.has_burnt
    assert step > 5, "it was hardly killed"
    assert report.jobs == 19
    assert await everything(target) == before
    async with opened(target) as queue:
        adopted = [e async for e in queue.events("beginning", follow=False)]
        assert sum(isinstance(event, Adopted) for event in adopted) == 19


@pytest.mark.parametrize("step", [1, 2, 5, 11])
async def test_a_process_that_is_killed_is_gone_on_from(step: int, tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address("sqlite", tmp_path, "b")
    async with opened(source) as queue:
        await live_a_little(queue)
    before = await everything(source)
    arguments = [sys.executable, "-m", "tests.migration.killed_move", source, target, str(step)]
    killed = await asyncio.create_subprocess_exec(*arguments)
    assert await killed.wait() == -signal.SIGKILL
    async with opened(target) as queue:
        with pytest.raises(BeingFilled):
            await queue.claim()
    assert (await migrate(source, target)).status == "moved"
    assert await everything(target) == before


class Forger:
    """Alters one job on its way: what a comparison has to see."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._backend, name)
        if name not in DANGEROUS:
            return method

        async def forged(command: Any) -> Any:
            if isinstance(command, Adopt):
                command.jobs[0].priority += 1
            return await method(command)

        return forged if name == "execute" else method


async def test_a_job_that_was_altered_on_its_way_is_seen(tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address("sqlite", tmp_path, "b")
    async with opened(source) as queue:
        await queue.enqueue("work")

    def forge(backend: Backend) -> Backend:
        forger: Any = Forger(backend)
        return forger  # type: ignore[no-any-return]  # it passes on whatever it is asked

    with pytest.raises(MoveUnverified, match="digests"):
        await migrate(source, target, wrap=forge)
    async with opened(target) as queue:
        with pytest.raises(BeingFilled):
            await queue.claim()


async def test_two_who_move_the_same_queue_do_it_once(tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address("sqlite", tmp_path, "b")
    async with opened(source) as queue:
        await live_a_little(queue)
    before = await everything(source)
    fuse = Fuse(6, answers_are_lost=True, burn=die)
    with pytest.raises(Killed):
        await migrate(source, target, wrap=fuse.wrap)
    await asyncio.gather(*(migrate(source, target) for _ in range(2)))
    assert await everything(target) == before


STEP = st.sampled_from(
    ["enqueue", "keyed", "later", "claim", "ack", "nack", "give up", "cancel", "archive", "import"]
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEP, max_size=25), pair=st.sampled_from(PAIRS), batch=st.integers(1, 5))
async def test_whatever_a_queue_holds_arrives(
    steps: list[str], pair: tuple[str, str], batch: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("moved")
    source, target = (address(kind, folder, name) for kind, name in zip(pair, "ab", strict=True))
    async with opened(source) as queue:
        for number, step in enumerate(steps):
            await _take(queue, step, number)
    before = await everything(source)
    report = await migrate(source, target, batch=batch)
    assert await everything(target) == before
    assert await everything(source) == before
    assert report.jobs == sum(count for *_, count in before[0])


async def _take(queue: Queue, step: str, number: int) -> None:
    id = f"job {number}"
    held = [job async for job in queue.jobs(state="running")]
    ended = [job.id async for job in queue.jobs(state="failed")]
    match step:
        case "keyed":
            await queue.enqueue("work", id=id, key=f"k{number % 3}", unique_seconds=600)
        case "later":
            await queue.enqueue("work", id=id, delay_seconds=600, queue=f"q{number % 2}")
        case "claim":
            await queue.claim(2, lease_seconds=600)
        case "ack" if held:
            await queue.ack(held[0], {"n": number})
        case "nack" if held:
            await queue.nack(held[0], "boom")
        case "give up" if held:
            await queue.nack(held[0], "boom", retry=False)
        case "cancel":
            await queue.cancel([job.id async for job in queue.jobs(state="pending")][:1])
        case "archive":
            await queue.archive(ended)
        case "import" if queue.capabilities.imports:
            rows = [penstock.NewJob("row", n) for n in range(3)]
            await queue.import_jobs(f"run-{number}", rows)
        case _:
            await queue.enqueue("work", number, id=id, priority=number % 3, retry=AT_ONCE)
