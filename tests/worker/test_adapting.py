"""The rule of `concurrency="auto"`, and a worker that follows it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.errors import InvalidInput
from penstock.testing.clock import turn
from penstock.testing.kit import Kit
from penstock.worker.adaptation import ROUND_SAMPLES_MAX, SAMPLE_SECONDS, Adaptation
from penstock.worker.adapting import (
    ENDED_MIN,
    LAG_SECONDS_MAX,
    REST_ROUNDS,
    Bounds,
    Limit,
    Seen,
    adapted,
)
from penstock.worker.options import CONCURRENCY, WorkerOptions
from penstock.worker.room import Room
from tests.worker.working import at_work, until, until_time_passes

BOUNDS = Bounds(8, 1_024)
LATE = LAG_SECONDS_MAX * 2
ROUNDS_MAX = 200


def seen(ended: int = 1_000, *, lag: float = 0.0, full: bool = True) -> Seen:
    return Seen(1.0, ended, lag, full)


@pytest.mark.parametrize(
    ("why", "limit", "seen", "wanted"),
    [
        ("there is more to do", Limit(64), seen(1_000), Limit(80, 64, 1_000.0)),
        ("a few at least", Limit(8), seen(1_000), Limit(12, 8, 1_000.0)),
        ("the step was worth it", Limit(80, 64, 1_000.0), seen(1_200), Limit(100, 80, 1_200.0)),
        ("it was not", Limit(80, 64, 1_000.0), seen(1_010), Limit(64, rest=REST_ROUNDS)),
        ("it even did harm", Limit(80, 64, 1_000.0), seen(500), Limit(64, rest=REST_ROUNDS)),
        ("a rest", Limit(64, rest=2), seen(1_000), Limit(64, rest=1)),
        ("nothing to gain", Limit(64), seen(1_000, full=False), Limit(64)),
        ("quiet after a step", Limit(80, 64, 9.0), seen(1, full=False), Limit(80)),
        ("too few to tell", Limit(80, 64, 1_000.0), seen(ENDED_MIN - 1), Limit(100, 80, None)),
        ("nothing to compare", Limit(80, 64, None), seen(10), Limit(100, 80, 10.0)),
        ("the loop lags", Limit(80, 64, 10.0), seen(lag=LATE), Limit(60, rest=REST_ROUNDS)),
        ("at a rest too", Limit(64, rest=2), seen(lag=LATE), Limit(48, rest=REST_ROUNDS)),
        ("not below the floor", Limit(8), seen(lag=LATE), Limit(8, rest=REST_ROUNDS)),
        ("nor above the ceiling", Limit(1_000), seen(9_000), Limit(1_024, 1_000, 9_000.0)),
        ("where it stays", Limit(1_024), seen(9_000), Limit(1_024, None, 9_000.0)),
    ],
)
def test_the_limit_follows_what_was_seen(why: str, limit: Limit, seen: Seen, wanted: Limit) -> None:
    assert adapted(limit, seen, BOUNDS) == wanted, why


@given(
    jobs=st.integers(8, 1_024),
    before=st.none() | st.integers(8, 1_024),
    rate_before=st.none() | st.floats(0, 1e6),
    rest=st.integers(0, REST_ROUNDS),
    happened=st.lists(
        st.builds(Seen, st.floats(0, 60), st.integers(0, 10**6), st.floats(0, 60), st.booleans()),
        max_size=20,
    ),
)
def test_whatever_happens_the_limit_stays_within_its_bounds(
    jobs: int,
    before: int | None,
    rate_before: float | None,
    rest: int,
    happened: list[Seen],
) -> None:
    limit = Limit(jobs, before, rate_before, rest)
    for each in happened:
        limit = adapted(limit, each, BOUNDS)
        assert BOUNDS.floor <= limit.jobs <= BOUNDS.ceiling


@given(useful=st.integers(8, 1_024), start=st.integers(8, 1_024))
def test_it_finds_how_many_jobs_at_once_are_of_use(useful: int, start: int) -> None:
    """Of handlers that take 0.1 s each, and of which no more than so many make progress at once."""
    limit, limits = Limit(start), list[int]()
    for _ in range(ROUNDS_MAX):
        limit = adapted(limit, seen(int(min(limit.jobs, useful) / 0.1)), BOUNDS)
        limits.append(limit.jobs)
    settled = limits[-REST_ROUNDS * 2 :]
    assert min(settled) >= min(useful * 0.7, BOUNDS.ceiling)
    # Without any lag there is no reason to go below where it began.
    assert max(settled) <= max(useful, start) * 1.6 + 8


def test_a_loop_that_cannot_keep_up_with_so_many_gets_fewer() -> None:
    limit = Limit(1_024)
    for _ in range(ROUNDS_MAX):
        limit = adapted(limit, seen(lag=LATE if limit.jobs > 100 else 0.0), BOUNDS)
    assert 50 <= limit.jobs <= 160


async def test_a_worker_claims_no_more_than_its_room_as_it_is_now(
    app: penstock.App, kit: Kit
) -> None:
    gates = [asyncio.Event() for _ in range(40)]

    @app.task
    async def wait(number: int) -> None:
        await gates[number].wait()

    await app.enqueue_many(wait.job(n) for n in range(40))
    async with at_work(kit, concurrency=8) as worker:
        await worker.until_running(8)
        room = worker.worker._room
        adaptation = Adaptation(room, Bounds(2, 12), kit.clock)
        adaptation.decide(seen())
        await worker.until_running(12)
        adaptation.decide(seen(lag=LATE))
        assert (room.limit, room.free) == (9, 0)
        for number in range(4):
            gates[number].set()
        await until(lambda: worker.counters.completed == 4)
        await worker.until_running(9)
        assert (await kit.queue.stats()).totals["running"] == 9


async def test_a_worker_that_is_to_find_out_widens_while_there_is_more_to_do(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def wait() -> None:
        await asyncio.Event().wait()

    await app.enqueue_many(wait.job() for _ in range(100))
    options = {"concurrency": "auto", "concurrency_min": 2, "concurrency_max": 70}
    async with at_work(kit, **options) as worker:
        await worker.until_running(CONCURRENCY)
        # In steps that a loop keeping up would see.
        for _ in range(ROUND_SAMPLES_MAX + 1):
            await kit.clock.advance(SAMPLE_SECONDS)
        await until_time_passes(kit.clock, lambda: worker.worker._room.limit == 70)
        await worker.until_running(70)


async def test_a_round_sees_what_the_worker_does(kit: Kit) -> None:
    room = Room(4, 1)
    adaptation = Adaptation(room, Bounds(1, 4), kit.clock)
    looking = asyncio.ensure_future(adaptation._round())
    await turn()
    room.ended += 100
    for _ in range(ROUND_SAMPLES_MAX):
        await kit.clock.advance(SAMPLE_SECONDS)
    found = await looking
    assert (found.ended, found.was_full) == (100, False)
    assert found.seconds >= 1.0 - SAMPLE_SECONDS
    assert found.lag_seconds < LAG_SECONDS_MAX


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": "many"},
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"concurrency_min": 0},
        {"concurrency_max": "auto"},
        {"concurrency_min": 10, "concurrency_max": 9},
    ],
)
def test_a_concurrency_that_cannot_be_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="concurrency"):
        WorkerOptions(**options)  # type: ignore[arg-type]


def test_a_concurrency_that_is_no_number_may_be_auto() -> None:
    with pytest.raises(InvalidInput, match="at least 1, or 'auto'"):
        WorkerOptions(concurrency="lots")  # type: ignore[arg-type]
