"""The same script gives the same history on every backend as it does in memory."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import penstock
from penstock import Queue
from penstock.runtime.services import Services
from penstock.stores.local import LocalStore
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.factories import seeded_services
from penstock.testing.optimistic_records import OptimisticRecords, SharedRecords
from penstock.testing.stamped_store import Stamped
from tests.engines.scripts import STEPS, Actor, Step

SCRIPTS = st.lists(STEPS, min_size=1, max_size=40)
Connect = Callable[[FakeClock, Services, str], list[Queue]]


def in_memory(clock: FakeClock, services: Services, folder: str) -> list[Queue]:
    return [penstock.open("memory://", services=services)]


def on_a_store(layout: str, handles: int, **options: Any) -> Connect:
    def connect(clock: FakeClock, services: Services, folder: str) -> list[Queue]:
        store = MemoryStore(now=clock.now)
        return [
            penstock.open(store=store, layout=layout, services=services, **options)
            for _ in range(handles)
        ]

    return connect


def in_a_folder(layout: str) -> Connect:
    def connect(clock: FakeClock, services: Services, folder: str) -> list[Queue]:
        store = Stamped(LocalStore(folder, fsync=False), clock, stamps={})
        return [penstock.open(store=store, layout=layout, services=services)]

    return connect


def in_a_file(handles: int, **options: Any) -> Connect:
    def connect(clock: FakeClock, services: Services, folder: str) -> list[Queue]:
        url = f"sqlite://{folder}/queue.db"
        return [
            penstock.open(url, services=services, fsync=False, **options) for _ in range(handles)
        ]

    return connect


def of_records(handles: int) -> Connect:
    def connect(clock: FakeClock, services: Services, folder: str) -> list[Queue]:
        shared = SharedRecords(now=clock.now)
        return [
            penstock.open(store=OptimisticRecords(shared), services=services)
            for _ in range(handles)
        ]

    return connect


BACKENDS: dict[str, tuple[Connect, int]] = {
    "log with three handles": (on_a_store("log", 3), 60),
    "single with three handles": (on_a_store("single", 3), 60),
    "log without group commit": (on_a_store("log", 1, group_commit=False), 40),
    "folder log": (in_a_folder("log"), 20),
    "folder single": (in_a_folder("single"), 20),
    "optimistic records with three handles": (of_records(3), 60),
    "sqlite with three handles": (in_a_file(3), 60),
    "sqlite without group commit": (in_a_file(1, group_commit=False), 30),
}


async def played(connect: Connect, script: Sequence[Step]) -> list[Any]:
    """What somebody who does this sees."""
    clock = FakeClock()
    seeded = seeded_services(1, clock)
    # Two handles that race decide twice; luck must not depend on how often it was asked.
    services = Services(clock, lambda: 0.5, seeded.new_secret, seeded.new_id)
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            handles = [
                await stack.enter_async_context(queue) for queue in connect(clock, services, folder)
            ]
            actor = Actor(handles, clock)
            await actor.run(script)
            await actor.look()
            return actor.seen


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_script_shows_the_same_as_in_memory(backend: str) -> None:
    connect, examples = BACKENDS[backend]

    @settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(script=SCRIPTS)
    def compare(script: list[Step]) -> None:
        expected = asyncio.run(played(in_memory, script))
        assert asyncio.run(played(connect, script)) == expected

    compare()


def test_the_same_script_shows_the_same_twice() -> None:
    """Or nothing would follow from the comparisons above."""

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=SCRIPTS)
    def compare(script: list[Step]) -> None:
        first, second = (asyncio.run(played(in_memory, script)) for _ in range(2))
        assert first == second

    compare()
