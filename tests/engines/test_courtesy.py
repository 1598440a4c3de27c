"""Several writers of one log: the quick one waits, the slow one gets its turn."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import penstock
from penstock.engines.ledger.courtesy import (
    CONTENTION_SECONDS,
    KNOCK_SECONDS,
    LOSSES_BEFORE_KNOCK,
    WINS_BETWEEN_LOOKS,
    Courtesy,
    Knock,
)
from penstock.errors import ObjectNotFound
from penstock.ports.store import Create, ObjectStore, PutMode, StoredObject, Written
from penstock.runtime.services import Services
from penstock.stores.layers.counting import Counting
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from tests.engines.stores import Recorded

COMMITS_MAX = 400
TRIPS_MAX = 60


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(autojump=True)


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(now=clock.now)


def courtesy(store: ObjectStore, clock: FakeClock, writer: str = "me") -> Courtesy:
    return Courtesy(store, "knock", writer, clock)


async def test_a_lone_writer_never_waits_and_pays_one_read_in_many_commits(
    store: MemoryStore, clock: FakeClock
) -> None:
    counting = Counting(store)
    lone, began = courtesy(counting, clock), clock.now()
    for _ in range(10 * WINS_BETWEEN_LOOKS):
        await lone.before_put()
        lone.measured(0.01)
        await lone.won()
    assert clock.now() == began
    assert (counting.requests.gets, counting.requests.puts) == (10, 0)


async def test_a_winner_who_knows_of_others_waits_for_them(
    store: MemoryStore, clock: FakeClock
) -> None:
    winner = courtesy(store, clock)
    winner.measured(0.1)
    await winner.won()
    winner.saw_another()
    began = clock.now()
    await winner.before_put()
    assert clock.now() - began == pytest.approx(0.25, abs=0.05)


async def test_others_that_were_not_seen_for_a_while_are_forgotten(
    store: MemoryStore, clock: FakeClock
) -> None:
    winner = courtesy(store, clock)
    winner.measured(1.0)
    winner.saw_another()
    clock.jump(CONTENTION_SECONDS + 1)
    await winner.won()
    began = clock.now()
    await winner.before_put()
    assert clock.now() == began


async def test_who_has_just_opened_the_log_does_not_wait_for_those_who_wrote_it(
    store: MemoryStore, clock: FakeClock
) -> None:
    class Tenth(Layer):
        """A put takes a tenth of a second."""

        async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
            clock.jump(0.1)
            return await self._store.put(key, data, mode)

    services = Services(clock=clock)
    async with penstock.open(store=Tenth(store), services=services) as queue:
        await queue.enqueue_many([penstock.NewJob("hello") for _ in range(10)])
    async with penstock.open(store=Tenth(store), services=services) as queue:
        await queue.expire()
        began = clock.now()
        for _ in range(10):
            await queue.claim()
        assert clock.now() - began == pytest.approx(10 * 0.1)


async def test_a_loser_knocks_and_stops_knocking_when_it_has_won(
    store: MemoryStore, clock: FakeClock
) -> None:
    loser = courtesy(store, clock, "slow")
    loser.measured(0.4)
    for _ in range(LOSSES_BEFORE_KNOCK - 1):
        await loser.lost()
    with pytest.raises(ObjectNotFound):
        await store.get("knock")
    await loser.lost()
    knock = msgspec.json.decode((await store.get("knock")).data, type=Knock)
    assert (knock.writer, knock.round_trip_seconds) == ("slow", 0.4)
    await loser.won()
    with pytest.raises(ObjectNotFound):
        await store.get("knock")


@pytest.mark.parametrize(("age_seconds", "waits"), [(0.0, True), (KNOCK_SECONDS + 1, False)])
async def test_a_knock_is_heard_while_it_is_fresh(
    store: MemoryStore, clock: FakeClock, age_seconds: float, waits: bool
) -> None:
    knock = Knock("slow", 0.4)
    await store.put("knock", msgspec.json.encode(knock), Create())
    clock.jump(age_seconds)
    quick = courtesy(store, clock)
    quick.measured(0.001)
    for _ in range(WINS_BETWEEN_LOOKS):
        await quick.won()
    began = clock.now()
    await quick.before_put()
    assert (clock.now() - began > 0.5) == waits


@pytest.mark.parametrize("data", [b"", b"garbage", b"{}", b"\xff"])
async def test_a_knock_that_nobody_understands_is_ignored(
    store: MemoryStore, clock: FakeClock, data: bytes
) -> None:
    await store.put("knock", data, Create())
    quick, began = courtesy(store, clock), clock.now()
    for _ in range(WINS_BETWEEN_LOOKS):
        await quick.won()
    await quick.before_put()
    assert clock.now() == began


class Distant(Layer):
    """A store that is some way off: every request takes so long, in real time."""

    def __init__(self, store: ObjectStore, seconds: float) -> None:
        super().__init__(store)
        self._seconds = seconds

    async def get(self, key: str) -> StoredObject:
        await asyncio.sleep(self._seconds)
        return await self._store.get(key)

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        await asyncio.sleep(self._seconds)
        return await self._store.put(key, data, mode)


async def test_a_slow_writer_gets_its_turn_among_quick_ones() -> None:
    store = MemoryStore()
    async with (
        penstock.open(store=Distant(store, 0.001)) as quick,
        penstock.open(store=Distant(store, 0.01)) as slow,
        asyncio.timeout(60),
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(slow.enqueue("work", id="slow"))
        commits = 0
        while not turn.done():
            await quick.enqueue("work")
            commits += 1
    assert turn.result().status == "queued"
    assert commits < COMMITS_MAX, "it had to wait too long"


async def test_a_writer_that_has_never_won_knocks_with_the_time_that_it_needs(
    store: MemoryStore,
) -> None:
    """Else the others would not know how long to wait for it."""

    class Always(Layer):
        """Somebody else is quicker, every time, until the knock was heard."""

        async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
            if key.startswith("log/") and "knock" not in [e.key async for e in self.list("knock")]:
                clock.jump(0.3)
                await quick.enqueue("work")
            return await self._store.put(key, data, mode)

    clock = FakeClock()
    services = Services(clock=clock)
    store = MemoryStore(now=clock.now)
    knocks = Recorded(Always(store))
    async with (
        penstock.open(store=store, services=services) as quick,
        penstock.open(store=knocks, services=services) as slow,
    ):
        assert (await slow.enqueue("work", id="slow")).status == "queued"
        puts = [data for key, data in knocks.puts if key == "knock"]
        assert msgspec.json.decode(puts[0], type=Knock).round_trip_seconds >= 0.3


async def test_a_process_whose_round_trip_spans_forty_commits_still_catches_up() -> None:
    """Five milliseconds for one writer, two hundred for another: it must not read for ever."""
    store, trips = MemoryStore(), 0

    class Remote(Layer):
        """While a request is on its way to it, others commit forty times."""

        trip: asyncio.Task[None] | None = None

        async def get(self, key: str) -> StoredObject:
            if key.startswith("log/"):
                self.trip = self.trip or asyncio.create_task(self._travel())
                await self.trip
            return await self._store.get(key)

        async def _travel(self) -> None:
            nonlocal trips
            trips += 1
            if trips > TRIPS_MAX:
                raise AssertionError("it never catches up")
            for _ in range(40):
                await quick.enqueue("work")
            self.trip = None

    async with penstock.open(store=store) as quick:
        await quick.enqueue("work")
        async with penstock.open(store=Remote(store)) as remote:
            await remote.close()
    assert trips < TRIPS_MAX
