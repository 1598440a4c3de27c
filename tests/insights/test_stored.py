"""What is stored is checked against the invariants, from the beginning or from a checkpoint."""

from __future__ import annotations

import pytest

import penstock
from penstock.engines.ledger.log.checkpoints import write_checkpoint
from penstock.engines.ledger.log.floor import raise_floor
from penstock.engines.ledger.names import checkpoint_key, log_key
from penstock.insights.checks import Check
from penstock.insights.stored import StoredState
from penstock.kernel.state import QueueState
from penstock.ports.store import Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.wire.commit import decode_commit
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
