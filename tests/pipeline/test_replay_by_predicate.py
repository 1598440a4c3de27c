"""Replay by a condition in Spark SQL: the right jobs, once, and a clear word on what can't be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import InvalidInput
from penstock.kernel.job import State
from penstock.pipeline.operations.replaying import Replayed, chosen
from penstock.pipeline.run import Plan, opened_pipeline
from tests.pipeline.backends import BACKENDS, LOG, Backend


@pytest.fixture
async def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Six dead letters and one job that was cancelled, of two tenants."""
    kind: Backend = getattr(request, "param", LOG)
    folder = tmp_path / "queue"
    folder.mkdir()
    url = kind.url(folder)
    for tenant in ("acme", "globex"):
        async with penstock.open(url, tenant=tenant) as queue:
            for type, error in (
                ("resize", "timeout of 3 s"),
                ("resize", "no space"),
                ("send", "timeout"),
            ):
                await queue.enqueue(type, id=f"{type} {error}", max_attempts=1)
                (job,) = await queue.claim(1)
                await queue.nack(job, error)
    async with penstock.open(url, tenant="acme") as queue:
        await queue.enqueue("resize", id="cancelled")
        await queue.cancel("cancelled")
    return url


async def states(url: str, tenant: str) -> dict[str, State]:
    async with penstock.open(url, tenant=tenant) as queue:
        return {job.id: job.state async for job in queue.jobs()}


@pytest.mark.parametrize("url", BACKENDS, indirect=True, ids=repr)
async def test_jobs_are_chosen_by_type_and_error_and_replayed_once(
    spark: SparkSession, url: str
) -> None:
    predicate = "type = 'resize' and error like '%timeout%'"
    with chosen(spark, url, predicate) as jobs:
        assert jobs.count() == 2
        assert [(row["jobs"], row["type"]) for row in jobs.by_reason()] == [(2, "resize")]
        assert jobs.replay() == Replayed(replayed=2)
        # Whoever does the same at the same time changes nothing.
        assert jobs.replay() == Replayed(replayed=2)
    with chosen(spark, url, predicate) as jobs:
        assert jobs.count() == 0
    for tenant in ("acme", "globex"):
        pending = [id for id, state in (await states(url, tenant)).items() if state == "pending"]
        assert pending == ["resize timeout of 3 s"]
        async with penstock.open(url, tenant=tenant) as queue:
            happened = [event.event for event in await queue.history(pending[0])]
        assert happened == ["enqueued", "claimed", "failed", "replayed"]


async def test_a_limit_a_tenant_and_the_state_narrow_it_down(spark: SparkSession, url: str) -> None:
    with chosen(spark, url, "state = 'cancelled'") as jobs:
        assert jobs.count() == 1
    with chosen(spark, url, "true", tenant="globex") as jobs:
        assert jobs.count() == 3
    with chosen(spark, url, "true", limit=2) as jobs:
        assert jobs.replay() == Replayed(replayed=2)
    assert (await states(url, "acme"))["resize timeout of 3 s"] == "pending"


def test_a_warehouse_can_be_asked_in_place_of_the_queue(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    warehouse = str(tmp_path / "warehouse")
    with opened_pipeline(spark, Plan(url, warehouse)) as pipeline:
        pipeline.run_once()
    with chosen(spark, url, "error = 'no space'", warehouse=warehouse, tenant="acme") as jobs:
        assert jobs.replay() == Replayed(replayed=1)


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        ("tpye = 'resize'", "tpye"),
        ("type = ", "Syntax error"),
        ("attempt", "boolean"),
    ],
)
def test_a_bad_predicate_is_one_clear_message(
    spark: SparkSession, url: str, predicate: str, words: str
) -> None:
    with pytest.raises(InvalidInput) as caught, chosen(spark, url, predicate):
        pass
    message = str(caught.value)
    assert predicate in message
    assert words.lower() in message.lower()
    assert "ended_at" in message
    assert "\n" not in message
