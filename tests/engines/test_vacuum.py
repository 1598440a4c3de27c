"""Vacuum: deletes what is old and nobody needs, in an order that a crash can't harm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import penstock
from penstock import Queue
from penstock.engines.ledger.log.floor import read_floor
from penstock.engines.ledger.names import checkpoint_key, log_key
from penstock.errors import Corrupt, Gap, InvalidJob
from penstock.kernel.commands import Enqueue
from penstock.kernel.events import commit_of, position_of
from penstock.kernel.job import State
from penstock.ports.store import Create, Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import claimed, completed, found, ids, take
from penstock.testing.factories import a_submission
from penstock.wire.snapshot import decode_checkpoint, encode_checkpoint
from tests.engines.stores import Recorded, checkpointed, commits, keys

DAY_SECONDS = 24 * 3600.0
LARGE = "x" * 2000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(autojump=True)


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(now=clock.now)


@pytest.fixture
def recorded(store: MemoryStore) -> Recorded:
    return Recorded(store)


@pytest.fixture
async def queue(recorded: Recorded, clock: FakeClock) -> AsyncIterator[Queue]:
    """Ten commits, checkpoints after the fourth and the eighth, all older than the retention."""
    async with open_queue(recorded, clock) as queue:
        for n in range(10):
            await queue.enqueue("work", id=str(n))
        await checkpointed(recorded, 4)
        await checkpointed(recorded, 8)
        clock.jump(8 * DAY_SECONDS)
        recorded.requests.clear()
        yield queue


def open_queue(store: Any, clock: FakeClock, **options: Any) -> Queue:
    return penstock.open(store=store, services=Services(clock=clock), **options)


async def test_what_is_below_the_older_of_two_checkpoints_goes(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    report = await queue.vacuum()
    assert (report.floor, report.log_objects, report.checkpoints) == (5, 4, 0)
    assert await commits(store) == list(range(5, 11))
    async with open_queue(store, clock) as again:
        assert await ids(again) == [str(n) for n in range(10)]


async def test_the_floor_is_raised_before_anything_is_deleted(
    queue: Queue, recorded: Recorded
) -> None:
    await queue.vacuum()
    changes = [request for request in recorded.requests if request[0] != "get"]
    changes = [(what, key) for what, key in changes if not key.startswith("probe/")]
    assert changes == [("put", "floor"), *(("delete", log_key(n)) for n in range(1, 5))]


async def test_vacuuming_twice_deletes_nothing_more(queue: Queue) -> None:
    await queue.vacuum()
    report = await queue.vacuum()
    assert (report.floor, report.log_objects, report.checkpoints) == (5, 0, 0)


async def test_nothing_goes_with_a_single_checkpoint(queue: Queue, store: MemoryStore) -> None:
    await store.delete(checkpoint_key(4))
    assert (await queue.vacuum()).log_objects == 0
    assert await commits(store) == list(range(1, 11))


async def test_nothing_younger_than_the_retention_goes(
    recorded: Recorded, store: MemoryStore, clock: FakeClock
) -> None:
    async with open_queue(recorded, clock) as queue:
        for _ in range(5):
            await queue.enqueue("work")
            clock.jump(2 * DAY_SECONDS)
        await checkpointed(recorded, 4)
        await checkpointed(recorded, 5)
        # Two, four, six, eight and ten days old by now; seven is the limit.
        assert (await queue.vacuum()).floor == 3
        assert await commits(store) == [3, 4, 5]


async def test_what_a_consumer_has_yet_to_read_stays(queue: Queue, store: MemoryStore) -> None:
    await queue.move_consumer("spark", position_of(3, 0))
    assert (await queue.vacuum()).floor == 3
    assert 3 in await commits(store)
    await queue.move_consumer("spark", position_of(9, 0))
    assert (await queue.vacuum()).floor == 5


async def test_a_consumer_never_moves_back(queue: Queue) -> None:
    await queue.move_consumer("spark", position_of(9, 0))
    await queue.move_consumer("spark", position_of(1, 0))
    assert (await queue.vacuum()).floor == 5


async def test_a_consumer_that_was_dropped_holds_nothing_back(queue: Queue) -> None:
    await queue.move_consumer("spark", 0)
    assert (await queue.vacuum()).floor == 1
    await queue.drop_consumer("spark")
    assert (await queue.vacuum()).floor == 5


async def test_a_consumer_that_is_silent_for_a_month_is_dropped(
    queue: Queue, clock: FakeClock
) -> None:
    await queue.move_consumer("spark", 0)
    clock.jump(29 * DAY_SECONDS)
    assert (await queue.vacuum()).floor == 1
    clock.jump(2 * DAY_SECONDS)
    assert (await queue.vacuum()).floor == 5


async def test_only_the_two_newest_checkpoints_stay(queue: Queue, store: MemoryStore) -> None:
    await checkpointed(store, 10)
    assert (await queue.vacuum()).checkpoints == 1
    assert await keys(store, "checkpoint/") == [checkpoint_key(8), checkpoint_key(10)]


async def test_nothing_goes_when_the_newest_checkpoint_is_not_the_fold_of_the_log(
    queue: Queue, store: MemoryStore
) -> None:
    head, jobs = decode_checkpoint("", (await store.get(checkpoint_key(8))).data)
    wrong = encode_checkpoint(head.overview, 0, b"", commit=8, chain=head.chain, at=head.at)
    assert len(jobs) == 8
    await store.put(checkpoint_key(8), wrong, Overwrite())
    with pytest.raises(Corrupt, match="fold"):
        await queue.vacuum()
    assert await commits(store) == list(range(1, 11))
    assert await read_floor(store) == 1


async def test_whole_numbers_do_not_make_a_checkpoint_look_wrong(
    recorded: Recorded, store: MemoryStore, clock: FakeClock
) -> None:
    """A process that wrote `60` and one that read `60.0` must make the same checkpoint."""
    async with open_queue(recorded, clock, result_ttl_seconds=60) as queue:
        policy = penstock.RetryPolicy(initial_seconds=5, multiplier=3, max_seconds=60, jitter=0)
        for _ in range(4):
            await queue.enqueue("work", retry=policy, timeout_seconds=60, delay_seconds=5)
        job = await claimed(queue, type="other")
        await queue.heartbeat(job, progress=1)
        journal = queue._backend._engine._journal  # type: ignore[attr-defined]
        journal.checkpointer.begin(journal.state, journal.head)
        while not await keys(store, "checkpoint/"):
            await queue.stats()
        [own] = await keys(store, "checkpoint/")
        written = (await store.get(own)).data
        await store.delete(own)
        await checkpointed(store, (await queue.stats()).commit)
        assert (await store.get(own)).data == written


async def test_reading_from_below_the_floor_is_a_gap(queue: Queue) -> None:
    await queue.vacuum()
    with pytest.raises(Gap, match="beginning") as raised:
        await take(queue, 1, since=position_of(2, 0))
    assert raised.value.floor == 5
    assert commit_of((await take(queue, 1, since="beginning"))[0].position) == 5


async def test_a_reader_at_the_floor_misses_nothing(queue: Queue) -> None:
    await queue.vacuum()
    [event] = await take(queue, 1, since=position_of(5, 0) - 1)
    assert commit_of(event.position) == 5


async def test_the_history_that_is_left_can_still_be_read(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    await queue.vacuum()
    async with open_queue(store, clock) as fresh:
        assert [event.event for event in await fresh.history("7")] == ["enqueued"]
        assert await fresh.history("1") == []
        assert (await found(fresh, "1")).state is State.PENDING


async def test_a_process_that_slept_through_a_vacuum_never_writes_into_a_vacated_slot(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with open_queue(store, clock) as sleeper, open_queue(store, clock) as busy:
        await sleeper.enqueue("work", id="0")
        for n in range(1, 10):
            await busy.enqueue("work", id=str(n))
        clock.jump(8 * DAY_SECONDS)
        await checkpointed(store, 6)
        await checkpointed(store, 8)
        assert (await busy.vacuum()).floor == 7
        assert (await sleeper.enqueue("work", id="10")).status == "queued"
        # It tried a slot below the floor, saw that it does not count, and took the real next one.
        assert [commit for commit in await commits(store) if commit >= 7] == [7, 8, 9, 10, 11]
        assert await ids(busy) == [str(n) for n in range(11)]
        assert await ids(sleeper) == [str(n) for n in range(11)]
        await busy.vacuum()
        assert await commits(store) == [7, 8, 9, 10, 11]


async def test_large_values_go_when_their_job_has_left_and_the_log_forgot_it(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with open_queue(store, clock, offload=True, payload_bytes_max=1000) as queue:
        await completed(queue, LARGE, payload=LARGE, id="done")
        await queue.enqueue("work", LARGE, id="waiting")
        assert len(await keys(store, "data/")) == 3
        clock.jump(8 * DAY_SECONDS)
        await queue.enqueue("work")
        assert (await queue.vacuum()).data_objects == 0, "the log still names them"
        clock.jump(8 * DAY_SECONDS)
        assert (await queue.vacuum()).data_objects == 2
        assert (await found(queue, "waiting")).payload == LARGE


async def test_orphans_are_swept_only_after_a_commit_that_forbids_their_publication(
    store: MemoryStore, recorded: Recorded, clock: FakeClock
) -> None:
    async with open_queue(recorded, clock, offload=True) as queue:
        await queue.enqueue("work")
        orphan = await queue._backend.keep("job", b"orphan")
        assert (await queue.vacuum()).data_objects == 0
        clock.jump(8 * DAY_SECONDS)
        recorded.requests.clear()
        assert (await queue.vacuum()).data_objects == 1
        assert recorded.requests.index(("put", log_key(2))) < recorded.requests.index(
            ("delete", orphan)
        )
        late = a_submission("late")
        late = type(late)(id="late", type="work", payload_key=orphan)
        [outcome] = await queue._backend.execute(Enqueue("default", [late]))
        assert isinstance(outcome, InvalidJob)
        assert await queue.get("late") is None


async def test_objects_that_are_not_ours_are_left_alone(queue: Queue, store: MemoryStore) -> None:
    await store.put("log/readme.txt", b"hello", Create())
    await store.put("checkpoint/notes", b"hello", Create())
    await queue.vacuum()
    assert (await store.get("log/readme.txt")).data == b"hello"
    assert (await store.get("checkpoint/notes")).data == b"hello"


async def test_large_values_of_layout_single_go_when_their_job_has_left_for_as_long(
    store: MemoryStore, clock: FakeClock
) -> None:
    options = {"layout": "single", "offload": True, "payload_bytes_max": 1000}
    async with open_queue(store, clock, **options) as queue:
        await completed(queue, LARGE, payload=LARGE, id="done")
        await queue.enqueue("work", LARGE, id="waiting")
        assert (await queue.vacuum()).data_objects == 0
        clock.jump(8 * DAY_SECONDS)
        await queue.enqueue("work")
        assert (await queue.vacuum()).data_objects == 0, "it has only just left"
        clock.jump(8 * DAY_SECONDS)
        assert (await queue.vacuum()).data_objects == 2
        assert (await found(queue, "waiting")).payload == LARGE


async def test_a_traceback_that_was_vacuumed_is_said_to_be(
    recorded: Recorded, clock: FakeClock
) -> None:
    async with open_queue(recorded, clock) as queue:
        job = await claimed(queue, id="broken", max_attempts=1)
        await queue.nack(job, "boom", traceback="in line 7")
        for n in range(8):
            await queue.enqueue("work", id=str(n))
        await checkpointed(recorded, 4)
        await checkpointed(recorded, 8)
        [before] = await queue.failures("broken")
        clock.jump(8 * DAY_SECONDS)
        await queue.vacuum()
        [after] = await queue.failures("broken")
    assert (before.traceback, before.vacuumed) == ("in line 7", False)
    assert (after.message, after.traceback, after.vacuumed) == ("boom", None, True)
