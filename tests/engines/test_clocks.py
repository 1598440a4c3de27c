"""Clocks: corrected by the store's, never going back, and refused when they are too far off."""

from __future__ import annotations

import pytest

import penstock
from penstock.engines.calibration import CALIBRATION_SECONDS, CommitClock
from penstock.errors import ClockSkew
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import EPOCH, FakeClock
from penstock.testing.conformance.backend.steps import found, nonzero
from tests.engines.stores import commits


class ShiftedStore(MemoryStore):
    """A store whose clock is ahead by so many seconds."""

    def __init__(self, clock: FakeClock) -> None:
        self.ahead_seconds = 0.0
        super().__init__(now=lambda: clock.now() + self.ahead_seconds)


@pytest.fixture
def clock() -> FakeClock:
    # Not a whole second: such stamps are taken for a store's that knows no fractions.
    return FakeClock(EPOCH + 0.5)


@pytest.fixture
def store(clock: FakeClock) -> ShiftedStore:
    return ShiftedStore(clock)


@pytest.mark.parametrize("layout", ["log", "single"])
@pytest.mark.parametrize("seconds", [-60.0, 60.0])
async def test_a_clock_that_is_too_far_off_is_refused_before_the_first_write(
    store: ShiftedStore, clock: FakeClock, seconds: float, layout: str
) -> None:
    store.ahead_seconds = seconds
    services = Services(clock=clock)
    async with penstock.open(store=store, layout=layout, services=services) as queue:
        assert await queue.get("job") is None
        assert nonzero((await queue.stats()).totals) == {}
        with pytest.raises(ClockSkew, match="NTP") as raised:
            await queue.enqueue("work", id="job")
    assert raised.value.skew_seconds == pytest.approx(-seconds, abs=0.02)
    assert await commits(store) == []


@pytest.mark.parametrize("seconds", [-1.25, 1.25])
async def test_a_clock_that_is_a_little_off_is_corrected(
    store: ShiftedStore, clock: FakeClock, seconds: float
) -> None:
    store.ahead_seconds = seconds
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await queue.enqueue("work", id="job")
        assert (await found(queue, "job")).enqueued_at == pytest.approx(
            clock.now() + seconds, abs=0.02
        )


async def test_a_clock_that_goes_wrong_later_stops_writing_until_it_is_right(
    store: ShiftedStore, clock: FakeClock
) -> None:
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await queue.enqueue("work")
        store.ahead_seconds = -60
        await clock.advance(CALIBRATION_SECONDS + 1)
        with pytest.raises(ClockSkew):
            await queue.enqueue("work", id="refused")
        assert await commits(store) == [1]
        store.ahead_seconds = 0
        assert (await queue.enqueue("work", id="refused")).status == "queued"


async def test_commit_times_do_not_go_back_when_a_clock_does(store: ShiftedStore) -> None:
    ahead, behind = FakeClock(EPOCH + 1.5), FakeClock(EPOCH + 0.5)
    store = ShiftedStore(behind)
    async with (
        penstock.open(store=store, services=Services(clock=behind)) as late,
        penstock.open(store=store, services=Services(clock=ahead)) as early,
    ):
        ahead.jump(1)
        await early.enqueue("work", id="first")
        await late.enqueue("work", id="second")
        first, second = await found(late, "first"), await found(late, "second")
        assert first.enqueued_at <= second.enqueued_at


@pytest.mark.parametrize(
    ("sent", "answered", "modified", "offset"),
    [
        (100.0, 101.0, 100.5, 0.0),  # within: nothing is known
        (100.0, 101.0, 102.5, 1.5),  # certainly ahead
        (100.2, 101.0, 99.1, -1.09),  # certainly behind, by all but the grain of a stamp
        (100.003, 100.1, 100.0005, 0.0),  # stamped with the kernel's last tick
        (100.9, 101.1, 100.0, 0.0),  # a whole second may be any time within it
        (102.5, 102.6, 100.0, -1.5),
        (101.0, 100.0, 100.5, 0.0),  # set back in between
    ],
)
def test_only_what_is_certain_is_corrected(
    sent: float, answered: float, modified: float, offset: float, clock: FakeClock
) -> None:
    commit_clock = CommitClock(MemoryStore(), Services(clock=clock))
    commit_clock.compare(sent, answered, modified)
    assert commit_clock.now() - clock.now() == pytest.approx(offset)
