"""The same script gives the same as in memory, up to what layout `tasks` says that it can't do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock import Queue
from penstock.kernel.events import Event
from penstock.kernel.job import Job
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import all_events
from penstock.testing.factories import seeded_services
from tests.engines.scripts import STEPS, Actor, Step, visible

TICK_SECONDS = 0.001
SCRIPTS = st.lists(STEPS, min_size=1, max_size=40)


class ApproximateActor(Actor):
    """Leaves out what depends on when somebody looks, and on the order between jobs."""

    async def look(self) -> None:
        queue = self._handles[0]
        for archived in (False, True):
            # By name the one, by age the other.
            jobs = sorted([job async for job in queue.jobs(archived=archived)], key=_life)
            self.seen.append([visible(job) for job in jobs])
        self._clock.jump(TICK_SECONDS)
        by_job: dict[str, list[Any]] = {}
        for event in await all_events(queue):
            by_job.setdefault(_subject(event), []).append(visible(event))
        self.seen.append(by_job)

    async def _do(self, queue: Queue, name: str, given: dict[str, Any]) -> Any:
        if name == "configure":
            # How many are kept at the most is for vacuum to see to.
            given["changes"].pop("finished_jobs_max", None)
        # What several handles do at the very same moment has no order.
        self._clock.jump(TICK_SECONDS)
        answer = await super()._do(queue, name, given)
        if name == "advance":
            # A dead lease is dead for everybody, but recorded only when somebody comes upon it.
            return await self._handles[0].expire()
        return None if name == "stats" else answer


def _life(job: Job) -> int:
    return job.life


def _subject(event: Event) -> str:
    return f"{event.tenant} {getattr(event, 'id', '')}"


async def played(handles: int, script: Sequence[Step]) -> list[Any]:
    """What somebody who does this sees; without handles, in memory."""
    clock = FakeClock()
    seeded = seeded_services(1, clock)
    services = Services(clock, lambda: 0.5, seeded.new_secret, seeded.new_id)
    store = MemoryStore(now=clock.now)
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                penstock.open(store=store, layout="tasks", services=services)
            )
            for _ in range(handles)
        ] or [await stack.enter_async_context(penstock.open("memory://", services=services))]
        actor = ApproximateActor(opened, clock)
        await actor.run(script)
        await actor.look()
        return actor.seen


@pytest.mark.parametrize("handles", [1, 3])
def test_a_script_shows_the_same_as_in_memory(handles: int) -> None:
    @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=SCRIPTS)
    def compare(script: list[Step]) -> None:
        expected = asyncio.run(played(0, script))
        assert asyncio.run(played(handles, script)) == expected

    compare()
