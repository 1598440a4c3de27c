"""Each fault of the faulty store is seen to happen, and to happen again under the same seed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import fields

import pytest

from penstock.errors import (
    ObjectNotFound,
    PreconditionFailed,
    PutUnknown,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from penstock.ports.store import Create, Overwrite, Replace
from penstock.stores.memory import MemoryStore
from penstock.testing.faults import Fault, Faults, Operation
from penstock.testing.faulty_store import FaultyStore
from tests.stores.clocks import HandClock, JumpingClock


class World:
    """A faulty store, what is really stored, and the clock."""

    def __init__(self, faults: Faults | None = None, seed: int = 1) -> None:
        self.clock = JumpingClock()
        self.inner = MemoryStore(now=self.clock.now)
        self.store = FaultyStore(self.inner, self.clock, random.Random(seed), faults)

    async def stored(self, key: str) -> bytes | None:
        try:
            return (await self.inner.get(key)).data
        except ObjectNotFound:
            return None


@pytest.mark.parametrize(
    ("fault", "error", "applied"),
    [
        (Fault.ERROR, StoreUnavailable, False),
        (Fault.LOST_REQUEST, PutUnknown, False),
        (Fault.LOST_ANSWER, PutUnknown, True),
        (Fault.ECHO, PreconditionFailed, True),
        (Fault.THROTTLED, PutUnknown, False),
        (Fault.DENIED, StoreDenied, False),
    ],
)
async def test_a_put_goes_wrong_as_scripted(
    fault: Fault, error: type[StoreError], applied: bool
) -> None:
    world = World()
    world.store.fail_next("put", fault)
    with pytest.raises(error):
        await world.store.put("key", b"content", Create())
    assert await world.stored("key") == (b"content" if applied else None)
    assert [injection.fault for injection in world.store.injected] == [fault]
    await world.store.put("other", b"content", Create())
    assert await world.stored("other") == b"content"


async def test_a_late_put_lands_after_its_client_gave_up() -> None:
    clock = HandClock()
    inner = MemoryStore()
    store = FaultyStore(inner, clock, random.Random(1), Faults(late_seconds_max=10))
    store.fail_next("put", Fault.LATE)
    with pytest.raises(PutUnknown):
        await store.put("key", b"late", Create())
    with pytest.raises(ObjectNotFound):
        await store.get("key")
    assert store.late_puts == 1
    await clock.advance(10)
    assert (await store.get("key")).data == b"late"
    assert store.late_puts == 0


async def test_a_late_put_is_refused_by_what_came_before_it() -> None:
    clock = HandClock()
    inner = MemoryStore()
    store = FaultyStore(inner, clock, random.Random(1), Faults(late_seconds_max=10))
    first = await store.put("key", b"first", Create())
    store.fail_next("put", Fault.LATE)
    with pytest.raises(PutUnknown):
        await store.put("key", b"late", Replace(first.version))
    await store.put("key", b"second", Replace(first.version))
    await clock.advance(10)
    assert (await store.get("key")).data == b"second"
    assert store.late_puts == 0


async def test_a_late_put_comes_after_the_timeout_of_its_client() -> None:
    clock = HandClock()
    faults = Faults(answer_timeout_seconds=20, late_seconds_max=1)
    store = FaultyStore(MemoryStore(), clock, random.Random(1), faults)
    store.fail_next("put", Fault.LATE)
    put = asyncio.ensure_future(store.put("key", b"late", Create()))
    await clock.advance(20)
    with pytest.raises(PutUnknown):
        await put
    assert store.late_puts == 1
    await clock.advance(1)
    assert (await store.get("key")).data == b"late"


@pytest.mark.parametrize("land", [True, False])
async def test_healing_lands_or_drops_late_puts(land: bool) -> None:
    clock = HandClock()
    inner = MemoryStore()
    store = FaultyStore(inner, clock, random.Random(1))
    store.fail_next("put", Fault.LATE)
    with pytest.raises(PutUnknown):
        await store.put("key", b"late", Create())
    await store.heal(land_late_puts=land)
    assert store.late_puts == 0
    assert [entry.key async for entry in store.list("")] == (["key"] if land else [])
    await clock.advance(1000)
    assert [entry.key async for entry in store.list("")] == (["key"] if land else [])


async def test_healing_ends_everything() -> None:
    world = World(Faults(get_error=1, conditions_ignored=True, throttling_begins=0))
    world.store.fail_next("put", Fault.ERROR, times=5)
    world.store.fail_next("list", Fault.DENIED)
    await world.store.heal()
    await world.store.put("key", b"content", Create())
    with pytest.raises(PreconditionFailed):
        await world.store.put("key", b"again", Create())
    assert (await world.store.get("key")).data == b"content"
    assert [entry.key async for entry in world.store.list("")] == ["key"]
    assert world.store.injected == ()


async def test_a_script_may_wait_for_a_prefix() -> None:
    world = World()
    world.store.fail_next("put", Fault.ERROR, prefix="log/")
    await world.store.put("floor", b"0", Create())
    with pytest.raises(StoreUnavailable):
        await world.store.put("log/1", b"", Create())
    assert await world.stored("floor") == b"0"


def test_a_script_must_be_possible() -> None:
    with pytest.raises(ValueError, match="befall a get"):
        World().store.fail_next("get", Fault.ECHO)


def test_probabilities_must_not_exceed_one() -> None:
    with pytest.raises(ValueError, match="befalls a put"):
        Faults(put_error=0.6, put_late=0.6)
    with pytest.raises(ValueError, match="befalls a list"):
        Faults(list_error=-0.1)


@pytest.mark.parametrize("operation", ["get", "list", "delete"])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.ERROR, StoreUnavailable),
        (Fault.THROTTLED, StoreUnavailable),
        (Fault.DENIED, StoreDenied),
    ],
)
async def test_other_requests_go_wrong_as_scripted(
    operation: Operation, fault: Fault, error: type[StoreError]
) -> None:
    world = World()
    await world.inner.put("key", b"content", Create())
    world.store.fail_next(operation, fault)
    with pytest.raises(error):
        await ask(world.store, operation)
    assert await world.stored("key") == b"content"


async def ask(store: FaultyStore, operation: Operation) -> None:
    if operation == "get":
        await store.get("key")
    elif operation == "list":
        _ = [entry async for entry in store.list("")]
    else:
        await store.delete("key")


async def test_a_delete_may_be_applied_without_an_answer() -> None:
    world = World()
    await world.inner.put("key", b"content", Create())
    world.store.fail_next("delete", Fault.LOST_ANSWER)
    with pytest.raises(StoreUnavailable):
        await world.store.delete("key")
    assert await world.stored("key") is None


async def test_a_slow_get_takes_its_time() -> None:
    world = World(Faults(get_slow_seconds=7))
    await world.inner.put("key", b"content", Create())
    world.store.fail_next("get", Fault.SLOW)
    started = world.clock.now()
    assert (await world.store.get("key")).data == b"content"
    assert world.clock.now() - started == 7


async def test_a_truncated_get_has_less() -> None:
    world = World()
    await world.inner.put("key", b"content", Create())
    world.store.fail_next("get", Fault.TRUNCATED)
    data = (await world.store.get("key")).data
    assert len(data) < len(b"content")
    assert b"content".startswith(data)


async def test_a_flipped_get_differs_by_one_bit() -> None:
    world = World()
    await world.inner.put("key", b"content", Create())
    world.store.fail_next("get", Fault.FLIPPED)
    data = (await world.store.get("key")).data
    difference = int.from_bytes(data) ^ int.from_bytes(b"content")
    assert difference.bit_count() == 1
    assert len(data) == len(b"content")


async def test_a_listing_may_miss_what_is_recent() -> None:
    world = World(Faults(list_recent_seconds=2))
    await world.inner.put("old", b"", Create())
    await world.clock.sleep(3)
    await world.inner.put("recent", b"", Create())
    world.store.fail_next("list", Fault.MISSED_RECENT)
    assert [entry.key async for entry in world.store.list("")] == ["old"]
    assert [entry.key async for entry in world.store.list("")] == ["old", "recent"]


async def test_a_listing_may_lose_a_page() -> None:
    world = World(Faults(list_page_keys=10))
    keys = [f"key/{number:02d}" for number in range(35)]
    for key in keys:
        await world.inner.put(key, b"", Create())
    world.store.fail_next("list", Fault.LOST_PAGE)
    listed = [entry.key async for entry in world.store.list("")]
    lost = sorted(set(keys) - set(listed))
    assert lost
    assert lost in (keys[:10], keys[10:20], keys[20:30], keys[30:])
    assert listed == sorted(listed)


async def test_a_store_that_ignores_conditions_overwrites() -> None:
    world = World(Faults(conditions_ignored=True))
    await world.store.put("key", b"first", Create())
    await world.store.put("key", b"second", Create())
    await world.store.put("key", b"third", Replace("no such version"))
    assert await world.stored("key") == b"third"


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        (Faults(throttling_begins=1, throttling_seconds=5), StoreUnavailable),
        (Faults(denial_begins=1, denial_seconds=5), StoreDenied),
    ],
    ids=["throttling", "denial"],
)
async def test_a_spell_lasts_its_time(faults: Faults, error: type[StoreError]) -> None:
    world = World(faults)
    await world.inner.put("key", b"content", Create())
    with pytest.raises(error):
        await world.store.get("key")
    world.store.faults = Faults()
    await world.clock.sleep(4.9)
    with pytest.raises(error):
        await world.store.get("key")
    await world.clock.sleep(0.2)
    assert (await world.store.get("key")).data == b"content"


async def test_latency_is_spread_around_its_median() -> None:
    world = World(Faults(latency_seconds=0.1, latency_spread=0.5))
    await world.inner.put("key", b"content", Create())
    took = []
    for _ in range(400):
        started = world.clock.now()
        await world.store.get("key")
        took.append(world.clock.now() - started)
    assert 0.08 < sorted(took)[200] < 0.12
    assert max(took) > 2 * min(took)


EVERYTHING = Faults(
    put_error=0.05,
    put_lost_request=0.05,
    put_lost_answer=0.05,
    put_late=0.05,
    put_echo=0.05,
    get_error=0.05,
    get_slow=0.05,
    get_truncated=0.05,
    get_flipped=0.05,
    list_error=0.1,
    list_missed_recent=0.1,
    list_lost_page=0.1,
    delete_error=0.1,
    delete_lost_answer=0.1,
    throttling_begins=0.01,
    throttling_seconds=0.5,
    denial_begins=0.01,
    denial_seconds=0.5,
    latency_seconds=0.02,
    list_page_keys=3,
)


async def one_day(seed: int) -> tuple[list[str], Counter[tuple[Operation, Fault]]]:
    """A fixed workload under all faults; what was answered, and what was injected."""
    world = World(EVERYTHING, seed)
    answers: list[str] = []
    for number in range(600):
        key = f"key/{number % 7}"
        try:
            match number % 5:
                case 0 | 1:
                    written = await world.store.put(key, str(number).encode(), Overwrite())
                    answers.append(f"put {written}")
                case 2:
                    answers.append(f"got {await world.store.get(key)}")
                case 3:
                    answers.append(f"listed {[e.key async for e in world.store.list('key/')]}")
                case _:
                    await world.store.delete(key)
                    answers.append("deleted")
        except StoreError as error:
            answers.append(f"{type(error).__name__}: {error}")
    await world.store.heal()
    answers += [f"left {entry}" async for entry in world.inner.list("")]
    return answers, Counter((i.operation, i.fault) for i in world.store.injected)


async def test_the_same_seed_gives_the_same_day() -> None:
    assert await one_day(7) == await one_day(7)


async def test_another_seed_gives_another_day() -> None:
    assert (await one_day(7))[0] != (await one_day(8))[0]


async def test_every_fault_with_a_probability_happens() -> None:
    _, injected = await one_day(7)
    named = {(operation, fault) for operation, fault in injected}
    likely = {
        (operation, fault)
        for operation in ("put", "get", "list", "delete")
        for fault, chance in EVERYTHING.chances(operation)
        if chance >= 0.05
    }
    assert likely <= named
    assert {fault for _, fault in named} == set(Fault)


def test_every_setting_of_a_probability_is_tried_above() -> None:
    tried = {field.name for field in fields(Faults) if getattr(EVERYTHING, field.name)}
    left = {field.name for field in fields(Faults)} - tried
    assert left == {"conditions_ignored", "answer_timeout_seconds"}
