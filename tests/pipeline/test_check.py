"""The invariants over a whole log: silent on a real one, and each shown to bite."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

import penstock
from penstock.engines.ledger.journal import ledger_capabilities
from penstock.errors import NoQueue, Unsupported
from penstock.kernel.events import (
    Admitted,
    Cancelled,
    Claimed,
    Completed,
    Enqueued,
    Paused,
    Retried,
)
from penstock.kernel.settings import DAY_SECONDS
from penstock.pipeline.checking.check import check, planned
from penstock.pipeline.checking.scope import Asked
from penstock.runtime.services import Services
from penstock.stores.local import local_store
from penstock.testing.clock import FakeClock
from penstock.wire.commit import Commit
from tests.engines.stores import checkpointed
from tests.pipeline.backends import TASKS, Backend
from tests.pipeline.databases import ALL_BUT_LOG, backend_of, forget_the_claim
from tests.pipeline.doctoring import Log
from tests.pipeline.histories import History
from tests.pipeline.queues import read

Found = set[tuple[int, str | None]]
CAPABILITIES = ledger_capabilities("test", push=False, multi_process=True, durability="strict")


def found(spark: SparkSession, queue: Path) -> Found:
    """Invariants that do not hold, each with the job that broke it."""
    rows = check(queue.as_uri(), spark=spark).collect()
    return {(row["invariant"], row["id"]) for row in rows}


@pytest.fixture
async def queue(tmp_path: Path) -> Path:
    """A bit of everything: a failure tried again, a cancellation, a pause, an import."""
    folder = tmp_path / "queue"
    no_wait = penstock.RetryPolicy(initial_seconds=0.0)
    async with penstock.open(f"{folder.as_uri()}?fsync=off") as queue:
        await queue.enqueue("resize", id="done", key="k")
        await queue.enqueue("resize", id="retried", retry=no_wait)
        await queue.enqueue("resize", id="cancelled")
        await queue.enqueue("resize", id="waiting")
        first, second = await queue.claim(2, worker="w")
        await queue.ack(first)
        await queue.nack(second, "boom")
        await queue.cancel("cancelled")
        waiting, again = await queue.claim(2)
        await queue.release(waiting)
        await queue.ack(again)
        await queue.enqueue("send", id="mail", queue="mail")
        await queue.claim(1, queues=["mail"])
        await queue.pause("mail")
        await queue.import_jobs("run", [penstock.NewJob("index", queue="bulk") for _ in range(3)])
        await queue.claim(1, queues=["bulk"])
    return folder


def event_of(kind: type, id: str) -> Callable[[Any], bool]:
    return lambda event: isinstance(event, kind) and getattr(event, "id", id) == id


@pytest.mark.slow
async def test_a_real_history_is_found_to_be_sound(spark: SparkSession, tmp_path: Path) -> None:
    history = History(tmp_path / "queue", seed=7)
    await history.add(2_000)
    for key, at in history.stamps.items():
        path = history.folder / key
        if path.exists():
            os.utime(path, (at, at))
    assert check(history.url, spark=spark).collect() == []


def claim_it_again(log: Log) -> None:
    index, claimed = log.find(event_of(Claimed, "mail"))
    log.append(index, claimed, attempt=2, operation="another")


def complete_it_with_a_token_that_was_taken_away(log: Log) -> None:
    index, _ = log.find(event_of(Retried, "retried"))
    log.append(index, log.find(event_of(Completed, "retried"))[1])


def cancel_what_has_completed(log: Log) -> None:
    index, completed = log.find(event_of(Completed, "done"))
    _, cancelled = log.find(event_of(Cancelled, "cancelled"))
    log.append(index, cancelled, id="done", life=completed.life)


def enqueue_a_key_that_is_held(log: Log) -> None:
    index, holder = log.find(event_of(Enqueued, "done"))
    log.append(index, holder, id="twin", life=log.next_position(index))


def claim_what_is_not_its_turn_and_call_it_the_third_attempt(log: Log) -> None:
    index, first = log.find(event_of(Claimed, "done"))
    _, jumping = log.find(event_of(Enqueued, "waiting"))
    log.append(index - 1, first, id="waiting", life=jumping.life, attempt=3, operation="jumps")


def _pauses(commit: Commit) -> bool:
    return any(isinstance(event, Paused) for event in commit.events)


def claim_from_a_paused_queue(log: Log) -> None:
    _, claimed = log.find(event_of(Claimed, "mail"))
    paused = next(index for index, commit in enumerate(log.commits) if _pauses(commit))
    log.append(paused, claimed, id="paused", operation="late")


def admit_a_row_again(log: Log) -> None:
    index, admitted = log.find(event_of(Admitted, "run.1"))
    log.append(index, admitted, id="again", life=log.next_position(index))


LIES: dict[Callable[[Log], None], Found] = {
    claim_it_again: {(4, "mail")},
    complete_it_with_a_token_that_was_taken_away: {(4, "retried")},
    cancel_what_has_completed: {(7, "done")},
    enqueue_a_key_that_is_held: {(10, "twin")},
    claim_what_is_not_its_turn_and_call_it_the_third_attempt: {(9, "waiting"), (11, "waiting")},
    claim_from_a_paused_queue: {(12, "paused")},
    admit_a_row_again: {(3, "again")},
}


def test_every_lie_is_found_and_its_job_named(spark: SparkSession, queue: Path) -> None:
    assert found(spark, queue) == set()
    log = Log(queue)
    for lie in LIES:
        lie(log)
    log.save()
    lies = found(spark, queue)
    expected = {each for those in LIES.values() for each in those}
    assert expected <= lies
    assert {id for _, id in lies} == {id for _, id in expected}


def test_a_chain_that_was_tampered_with_is_found(spark: SparkSession, queue: Path) -> None:
    log = Log(queue)
    for path in log.paths:
        os.utime(path, (1, 1))
    hole, cut = log.paths[2], log.paths[5]
    hole.unlink()
    cut.write_bytes(cut.read_bytes()[:-3])
    rows = check(queue.as_uri(), spark=spark).where("invariant = 15").collect()
    said = {(row["commit"], row["message"].partition(";")[0]) for row in rows}
    assert (4, "it follows commit 2") in said
    assert any("ahead of the store" in message for _, message in said)
    assert any(commit == 6 and "truncated or altered" in message for commit, message in said)


def test_a_violation_says_where_the_event_stands(spark: SparkSession, queue: Path) -> None:
    log = Log(queue)
    cancel_what_has_completed(log)
    log.save()
    (row,) = check(queue.as_uri(), spark=spark).where("invariant = 7").collect()
    assert (row["tenant"], row["id"]) == ("default", "done")
    assert row["position"] // 1_000_000 == row["commit"]
    assert row["message"] == "cancelled after it was completed"


async def test_a_checkpoint_has_every_live_job_as_its_events_make_it(
    spark: SparkSession, queue: Path
) -> None:
    store = local_store(str(queue))
    log = Log(queue)
    await checkpointed(store, len(log.commits))
    await store.close()
    assert found(spark, queue) == set()
    enqueue_a_key_that_is_held(log)
    index, claimed = log.find(event_of(Claimed, "mail"))
    log.replace(index, claimed, worker="somebody else")
    log.save()
    rows = check(queue.as_uri(), spark=spark).where("invariant = 14").collect()
    said = {row["id"]: row["message"].partition(": ")[2] for row in rows}
    assert said == {
        "twin": "it is pending and not there",
        "mail": "it is not what its events make of it, in worker",
    }


def test_a_lease_that_nobody_takes_back_is_found(spark: SparkSession, queue: Path) -> None:
    log = Log(queue)
    index, claimed = log.find(event_of(Claimed, "mail"))
    log.replace(index, claimed, lease_until=claimed.at - 7_200.0)
    log.save()
    assert found(spark, queue) == {(17, "mail")}


def test_a_job_from_nowhere_is_found(spark: SparkSession, queue: Path) -> None:
    log = Log(queue)
    index, completed = log.find(event_of(Completed, "done"))
    log.append(index, completed, id="nobody")
    log.save()
    assert (2, "nobody") in found(spark, queue)


@pytest.fixture(params=ALL_BUT_LOG)
def kind(request: pytest.FixtureRequest) -> Backend:
    return backend_of(request, request.param)


NOT_ASKED = {"redis": {11}, "postgres": {11}, "tasks": {11, 12}}
"""Beside what no backend but a log can answer."""


@pytest.mark.slow
async def test_other_backends_are_asked_what_they_can_answer(
    spark: SparkSession, tmp_path: Path, kind: Backend
) -> None:
    history = History(tmp_path / "queue", seed=8, kind=kind)
    if kind is TASKS:
        # What is later than now is not there yet, where positions are times.
        history.clock = FakeClock(Services().clock.now() - DAY_SECONDS)
    await history.add(600)
    plan = planned(history.url)
    assert plan.violations(spark).collect() == []
    assert set(plan.asked.not_asked()) == {1, 8, 13, 14, 15, 16, 18} | NOT_ASKED.get(
        kind.name, set()
    )
    assert read(spark, history.url, "events").count() > 600


async def test_where_events_are_ordered_per_job_nobody_asks_about_commits(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = f"{tmp_path.as_uri()}?layout=tasks"
    async with penstock.open(url) as made:
        await made.enqueue_many([penstock.NewJob("work", id=f"job-{n}") for n in range(5)])
        await made.ack(await made.claim(3))
    plan = planned(url)
    assert plan.violations(spark).collect() == []
    assert "ordered per job" in plan.asked.not_asked()[15]
    said = plan.asked.capabilities
    assert said is not None
    pretended = replace(
        plan, asked=replace(plan.asked, capabilities=replace(said, events="ordered"))
    )
    assert {row["invariant"] for row in pretended.violations(spark).collect()} == {15}


@pytest.mark.parametrize("name", [name for name in ALL_BUT_LOG if name != "single"])
async def test_a_lie_in_any_store_is_found(
    spark: SparkSession, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    kind = backend_of(request, name)
    async with penstock.open(kind.url(tmp_path)) as made:
        await made.enqueue("work", id="a")
        await made.ack(await made.claim(1))
    forget_the_claim(kind, tmp_path)
    rows = check(kind.url(tmp_path), spark=spark).collect()
    assert {(row["invariant"], row["id"]) for row in rows} == {(4, "a")}


def test_what_can_not_be_asked_is_said() -> None:
    a_log = Asked(capabilities=None, floor=1, newest_at=0.0, checkpoint=7)
    assert set(a_log.not_asked()) == {1, 8, 13, 16, 18}
    assert "there is no checkpoint" in replace(a_log, checkpoint=None).not_asked()[14]
    assert "before commit 9" in replace(a_log, floor=9).not_asked()[2]
    loose = replace(CAPABILITIES, order="approximate", pause="eventual")
    per_job = replace(a_log, capabilities=loose)
    assert {11, 12} <= set(per_job.not_asked())
    assert per_job.scopes_left_out == {"order", "pauses"}


def test_where_there_is_no_queue_or_no_other_can_see_it_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoQueue):
        check((tmp_path / "elsewhere").as_uri())
    with pytest.raises(Unsupported):
        check("memory://")
