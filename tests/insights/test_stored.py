"""What is stored is checked against the invariants, from the beginning or from a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import penstock
from penstock.engines.ledger.log.checkpoints import write_checkpoint
from penstock.engines.ledger.log.floor import raise_floor
from penstock.engines.ledger.names import QUEUE, checkpoint_key, log_key
from penstock.engines.ledger.single.document import decode_document, encode_document, record_of
from penstock.insights import stored_log
from penstock.insights.checks import Check
from penstock.insights.stored import StoredState
from penstock.kernel.events import Claimed, position_of
from penstock.kernel.job import Job
from penstock.kernel.state import QueueState
from penstock.ports.store import Overwrite, StoredObject
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.wire.commit import CHAIN_START, decode_commit, encode_commit
from penstock.wire.snapshot import checkpoint_of

COMMITS = 6


@pytest.fixture
async def store() -> MemoryStore:
    """A queue of six commits."""
    made = MemoryStore()
    async with penstock.open(store=made, group_commit=False) as queue:
        for number in range(COMMITS - 2):
            await queue.enqueue("add", number)
        jobs = await queue.claim(2)
        await queue.ack(jobs)
    return made


async def examined(store: MemoryStore) -> dict[str, Check]:
    return {check.check: check async for check in StoredState(store).run()}


async def test_a_log_from_its_beginning_is_asked_everything(store: MemoryStore) -> None:
    checks = await examined(store)
    assert {check.verdict for check in checks.values()} == {"ok"}
    assert "6 commits" in checks["log"].detail


async def test_checkpoints_have_to_be_what_the_log_says(store: MemoryStore) -> None:
    await checkpoint(store, 3)
    checks = await examined(store)
    assert checks["checkpoints are folds"].detail == "1 of 1 folded"
    data = (await store.get(checkpoint_key(3))).data
    await store.put(checkpoint_key(3), data.replace(b'"add"', b'"sub"'), Overwrite())
    assert (await examined(store))["checkpoints are folds"].verdict == "fail"


async def test_a_log_without_its_beginning_is_asked_what_can_be_answered(
    store: MemoryStore,
) -> None:
    await checkpoint(store, 2)
    await checkpoint(store, 4)
    await raise_floor(store, 3, Services())
    for commit in (1, 2):
        await store.delete(log_key(commit))
    checks = await examined(store)
    assert checks["log"].detail.endswith("from commit 3 on")
    assert checks["terminal is final"].verdict == "skip"
    assert checks["log is a chain"].verdict == "ok"
    assert checks["checkpoints are folds"].detail == "1 of 2 folded"


async def test_a_log_whose_beginning_is_gone_fails(store: MemoryStore) -> None:
    await store.delete(log_key(1))
    assert (await examined(store))["log"].verdict == "fail"


async def test_a_floor_that_no_checkpoint_reaches_fails(store: MemoryStore) -> None:
    await raise_floor(store, 3, Services())
    assert (await examined(store))["checkpoints are folds"].verdict == "fail"


async def test_a_hole_in_the_log_is_found(store: MemoryStore) -> None:
    await store.delete(log_key(3))
    checks = await examined(store)
    assert checks["log is a chain"].verdict == "fail"
    assert "it follows commit 2" in checks["log is a chain"].detail


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is judged commit by commit, as a long one is part by part."""
    monkeypatch.setattr(stored_log, "PARALLEL_READS", 1)
    monkeypatch.setattr(stored_log, "PART_EVENTS_MIN", 1)


async def worked_on(store: MemoryStore, clock: FakeClock, **options: Any) -> None:
    """A queue with a past of every kind."""
    services = Services(clock=clock)
    async with penstock.open(store=store, services=services, **options) as queue:
        for round in range(4):
            for number in range(4):
                key, id = f"k{number}", f"j{number}"
                await queue.enqueue(
                    "add", {"number": [number]}, id=id, key=key, unique_seconds=90, priority=number
                )
            await queue.pause("other")
            jobs = await queue.claim(4, worker="w1")
            await queue.heartbeat(jobs, progress=0.5)
            for turn, job in enumerate(jobs):
                if turn == 0:
                    await queue.ack(job, "x")
                elif turn == 1:
                    await queue.nack(job, "boom", retry=round % 2 == 0)
                elif turn == 2:
                    await queue.release(job)
                else:
                    await queue.cancel(job.id)
            await queue.resume("other")
            await clock.advance(100)


@pytest.mark.usefixtures("in_small_parts")
async def test_a_log_that_is_judged_in_parts_is_judged_as_a_whole(clock: FakeClock) -> None:
    store = MemoryStore(now=clock.now)
    await worked_on(store, clock, result_ttl_seconds=50, dead_letter_ttl_seconds=150)
    checks = await examined(store)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert "counts are conserved" in checks


@pytest.mark.usefixtures("in_small_parts")
async def test_a_violation_is_found_although_its_cause_is_long_read() -> None:
    store, previous = MemoryStore(), CHAIN_START
    async with penstock.open(store=store, group_commit=False) as queue:
        await queue.pause("mail")
        await queue.enqueue("add", 1, queue="mail", id="job")
        await queue.enqueue("add", 1, id="another")
    previous = decode_commit("log", (await store.get(log_key(3))).data).chain
    for number in (4, 5):
        position, at = position_of(number, 0), time_of(await store.get(log_key(3)))
        claimed = Claimed(
            position, at, "default", "mail", "add", "job", position_of(2, 0),
            attempt=1, operation="secret", lease_until=at, enqueued_at=at, run_at=at,
        )  # fmt: skip
        data, previous = encode_commit(
            [claimed], commit=number, commit_id="id", writer="w", at=at, previous=previous
        )
        await store.put(log_key(number), data, Overwrite())
    checks = await examined(store)
    assert "commit 4: default/job: claimed, but 'mail' is paused" in checks["pauses hold"].detail
    assert "commit 5: default/job: claimed while another" in checks["leases are exclusive"].detail
    assert checks["leases are exclusive"].detail.startswith("1 violation:")
    assert "can't be folded" in checks["checkpoints are folds"].detail


@pytest.mark.usefixtures("in_small_parts")
async def test_what_is_remembered_of_a_long_log_is_what_still_matters(clock: FakeClock) -> None:
    store = MemoryStore(now=clock.now)
    async with penstock.open(
        store=store, services=Services(clock=clock), result_ttl_seconds=0
    ) as queue:
        for number in range(50):
            await queue.enqueue("add", "x" * 100, id=f"j{number}")
            await queue.ack(await queue.claim(1))
        await queue.enqueue("add", "x" * 100, id="waiting")
    progress = list[tuple[int, int]]()
    checkup = stored_log.LogCheckup(store, lambda count, of: progress.append((count, of)))
    checks = [check async for check in checkup.run()]
    assert {check.verdict for check in checks} == {"ok"}
    assert checkup._retained.events <= 2
    assert (sum(count for count, _ in progress), progress[0][1]) == (152, 152)


async def test_layout_single_is_asked_as_much(clock: FakeClock) -> None:
    store = MemoryStore(now=clock.now)
    ttl = {"result_ttl_seconds": 50, "dead_letter_ttl_seconds": 150}
    await worked_on(store, clock, layout="single", **ttl)
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await queue.enqueue("add", {"written": ["by another handle"]})
    checks = await examined(store)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    for law in ("jobs are their events", "terminal is final", "counts are conserved"):
        assert law in checks
    assert not checks["archive/"].detail.startswith("0 ")


@pytest.mark.parametrize(
    ("law", "alter"),
    [
        ("jobs are their events", lambda job, events: (altered(job, priority=9), events)),
        ("jobs are their events", lambda job, events: (job, events[1:])),
        ("jobs are their events", lambda job, events: (job, [events[0], events[0], *events[1:]])),
        ("attempts are counted", lambda job, events: (job, [*events[:-1], skipped(events[-1])])),
        ("jobs are their events", lambda job, events: (altered(job, queue="other"), events)),
    ],
    ids=["another priority", "no beginning", "twice", "an attempt skipped", "another queue"],
)
async def test_layout_single_is_not_believed(law: str, alter: Any) -> None:
    store = MemoryStore()
    async with penstock.open(store=store, layout="single") as queue:
        await queue.enqueue("add", 1)
        await queue.claim(1)
    document = decode_document((await store.get(QUEUE)).data)
    [record] = document.jobs
    forged = replace(document, jobs=[record_of(*alter(record.job, record.events))])
    await store.put(QUEUE, encode_document(forged), Overwrite())
    assert (await examined(store))[law].verdict == "fail"


async def test_a_job_that_is_missing_from_layout_single_is_missed() -> None:
    store = MemoryStore()
    async with penstock.open(store=store, layout="single") as queue:
        await queue.enqueue("add", 1)
    document = decode_document((await store.get(QUEUE)).data)
    forged = replace(document, jobs=[], events=[])
    await store.put(QUEUE, encode_document(forged), Overwrite())
    assert (await examined(store))["counts are conserved"].verdict == "fail"


@pytest.mark.parametrize("key", [QUEUE, "archive/2026-11-15T10/x.jsonl"])
async def test_an_object_of_layout_single_that_cannot_be_read_fails(key: str) -> None:
    store = MemoryStore()
    async with penstock.open(store=store, layout="single") as queue:
        await queue.enqueue("add", 1)
    await store.put(key, b'{"job": 7}\n', Overwrite())
    checks = await examined(store)
    assert checks["queue.json" if key == QUEUE else "archive/"].verdict == "fail"


def altered(job: Job, **changes: Any) -> Job:
    return replace(job, **changes)


def skipped(event: Claimed) -> Claimed:
    return replace(event, attempt=event.attempt + 1)


def time_of(stored: StoredObject) -> float:
    return decode_commit("log", stored.data).header.at


async def test_import_objects_have_to_be_there_while_they_are_needed(store: MemoryStore) -> None:
    async with penstock.open(store=store) as queue:
        await queue.import_jobs("run", [penstock.NewJob("work"), penstock.NewJob("work")])
    check = (await examined(store))["import objects"]
    assert (check.verdict, check.detail) == ("ok", "1 with 2 unadmitted jobs")
    [key] = [entry.key async for entry in store.list("import/")]
    await store.delete(key)
    check = (await examined(store))["import objects"]
    assert (check.verdict, key in check.detail) == ("fail", True)


async def checkpoint(store: MemoryStore, number: int) -> None:
    state, chain, at = QueueState(), "", 0.0
    for each in range(1, number + 1):
        commit = decode_commit("log", (await store.get(log_key(each))).data)
        chain, at = commit.chain, commit.header.at
        state.fold(at, commit.events)
    data = checkpoint_of(state, commit=number, chain=chain, at=at)
    await write_checkpoint(store, number, data)
