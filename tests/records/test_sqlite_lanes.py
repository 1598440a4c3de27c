"""SQLite: what claims, counts and lists cost with many lanes, in steps of SQLite's machine.

A plan may name an index and walk all of it, and times are for the benchmark.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import penstock
from penstock import NewJob, Queue
from penstock.errors import Corrupt
from penstock.ports.listing import LOOKED_AT_MAX

MANY = 7_000
BACKLOG = 3 * LOOKED_AT_MAX
PAGE = 20
STEPS_PER_LANE = 60
"""A page of a listing, or a look at all lanes, may take so many for each that it is about."""


class Steps:
    def __init__(self) -> None:
        self.taken = 0

    def take(self) -> None:
        self.taken += 1

    async def of(self, act: Callable[[], Awaitable[Any]]) -> int:
        before = self.taken
        await act()
        return self.taken - before


@pytest.fixture
def steps() -> Steps:
    return Steps()


Opened: TypeAlias = Callable[[list[NewJob]], Awaitable[Queue]]


@pytest.fixture
async def opened(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Opened]:
    """Queues that have these jobs; the steps of their connections are counted from then on."""
    connect = sqlite3.connect
    names = count()
    async with AsyncExitStack() as stack:

        def connect_counted(*args: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **options)
            connection.set_progress_handler(steps.take, 1)
            return connection

        async def open_filled(jobs: list[NewJob]) -> Queue:
            url = f"sqlite://{tmp_path}/{next(names)}.db?fsync=off"
            async with penstock.open(url) as queue:
                for first in range(0, len(jobs), 1_000):
                    await queue.enqueue_many(jobs[first : first + 1_000])
            with monkeypatch.context() as patch:
                patch.setattr(sqlite3, "connect", connect_counted)
                return await stack.enter_async_context(penstock.open(url))

        yield open_filled


def one_lane(n: int) -> NewJob:
    return NewJob("type-0", queue="queue-0")


def pairs(n: int) -> NewJob:
    return NewJob(f"type-{n % 100}", queue=f"queue-{n // 100}")


def types(n: int) -> NewJob:
    return NewJob(f"type-{n}", queue="queue-0")


def queues(n: int) -> NewJob:
    return NewJob("type-0", queue=f"queue-{n}")


def priorities(n: int) -> NewJob:
    return NewJob("type-0", queue="queue-0", priority=n)


@pytest.mark.parametrize(
    "named", [{}, {"queues": ["queue-0"]}, {"types": ["type-0"]}], ids=["none", "queue", "type"]
)
@pytest.mark.parametrize("lane", [pairs, types, queues, priorities])
@pytest.mark.parametrize("most", [1, 20])
async def test_a_claim_costs_at_most_twice_as_much_with_thousands_of_lanes(
    opened: Opened,
    steps: Steps,
    lane: Callable[[int], NewJob],
    named: dict[str, Any],
    most: int,
) -> None:
    """The whole turn, with what it writes."""
    taken: list[int] = []
    for each in (one_lane, lane):
        queue = await opened([each(n) for n in range(MANY)])

        async def claim(queue: Queue = queue) -> None:
            assert await queue.claim(most, **named)

        taken.append(await steps.of(claim))
    # What is claimed from as many lanes changes as many of them.
    assert taken[1] <= 2 * taken[0] + (most - 1) * 10 * STEPS_PER_LANE, taken


@pytest.mark.parametrize("named", [{}, {"queues": ["queue-0"]}, {"types": ["rare"]}])
async def test_a_claim_costs_the_same_whatever_is_not_asked_for(
    opened: Opened, steps: Steps, named: dict[str, Any]
) -> None:
    taken: list[int] = []
    for many in (5, MANY):
        jobs = [NewJob("work", queue=f"queue-{n % 100}") for n in range(many)]
        queue = await opened([*jobs, NewJob("rare", queue="queue-0")])

        async def claim(queue: Queue = queue) -> None:
            assert len(await queue.claim(1, **named)) == 1

        taken.append(await steps.of(claim))
    assert taken[1] <= taken[0] + 200, taken


async def test_a_claim_steps_over_paused_queues(opened: Opened, steps: Steps) -> None:
    queue = await opened([NewJob("work", queue="paused")] * MANY + [NewJob("work", queue="open")])
    await queue.pause("paused")

    async def claim() -> None:
        [one] = await queue.claim(5)
        assert one.queue == "open"

    assert await steps.of(claim) <= 5_000


async def test_counting_takes_a_few_steps_for_each_lane(opened: Opened, steps: Steps) -> None:
    queue = await opened([queues(n) for n in range(MANY)])
    assert await steps.of(queue.stats) <= 3 * STEPS_PER_LANE * MANY


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({}, PAGE),
        ({"state": "pending"}, PAGE),
        ({"state": "cancelled"}, 2),
        ({"state": "pending", "type": "rare"}, 1),
    ],
)
async def test_a_page_takes_as_many_steps_as_it_may_whatever_the_depth(
    opened: Opened,
    steps: Steps,
    filter: dict[str, Any],
    found: int,
) -> None:
    """Most are pending, some have ended long before them and some behind them."""
    jobs = [NewJob("work", id=f"{n}") for n in range(2 * BACKLOG)]
    queue = await opened([NewJob("work", id="first"), *jobs, NewJob("work", id="last")])
    await queue.enqueue("rare")
    await queue.cancel(["first", "last"])

    async def list_first() -> None:
        assert len([job async for job in queue.jobs(limit=PAGE, **filter)]) == found

    # Too many lives to be put in order are counted up to where that is known.
    assert await steps.of(list_first) <= 8 * 10_000 + STEPS_PER_LANE * PAGE


async def test_each_lane_begins_with_its_first_record_whatever_has_happened(
    opened: Opened, tmp_path: Path
) -> None:
    luck = random.Random(7)
    queue = await opened([])
    for _ in range(60):
        jobs = [
            NewJob(
                f"type-{luck.randrange(3)}",
                queue=f"queue-{luck.randrange(3)}",
                priority=luck.randrange(2),
                delay_seconds=luck.choice([0, 0, 60]),
            )
            for _ in range(luck.randrange(5))
        ]
        receipts = await queue.enqueue_many(jobs)
        claimed = await queue.claim(luck.randrange(1, 6))
        await (queue.ack if luck.random() < 0.5 else queue.release)(claimed[1:])
        await queue.cancel([one.id for one in receipts[:1] if isinstance(one, penstock.Receipt)])
        with closing(sqlite3.connect(tmp_path / "0.db")) as connection:
            kept = connection.execute(
                "SELECT number, first_at, first_life FROM penstock_lanes ORDER BY number"
            ).fetchall()
            counted = connection.execute(
                "SELECT place, at, min(life) FROM penstock_jobs AS job WHERE place > 0 AND at ="
                " (SELECT min(at) FROM penstock_jobs AS other WHERE other.place = job.place)"
                " GROUP BY place ORDER BY place"
            ).fetchall()
        assert kept == counted


async def test_claims_of_many_lanes_come_in_one_order(
    opened: Opened,
) -> None:
    luck = random.Random(11)
    queue = await opened([])
    jobs = [
        NewJob(f"{luck.randrange(5)}", queue=f"{luck.randrange(5)}", priority=luck.randrange(3))
        for _ in range(300)
    ]
    for job in jobs:
        await queue.enqueue(job.type, queue=job.queue, priority=job.priority)
    expected = sorted(jobs, key=lambda job: job.priority)
    claimed = [one for _ in range(30) for one in await queue.claim(10)]
    assert [(one.type, one.queue, one.priority) for one in claimed] == [
        (job.type, job.queue, job.priority) for job in expected
    ]


async def test_a_lane_that_does_not_begin_as_it_says_is_corrupt(
    opened: Opened, tmp_path: Path
) -> None:
    queue = await opened([NewJob("work")])
    with closing(sqlite3.connect(tmp_path / "0.db", isolation_level=None)) as connection:
        connection.execute("UPDATE penstock_lanes SET first_life = first_life + 1")
    with pytest.raises(Corrupt, match="does not begin"):
        await queue.claim(1)
