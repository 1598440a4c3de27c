"""The command line on a real S3 server."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.running import Penstock
from tests.servers import seaweed


@pytest.fixture
def bucket(seaweed: seaweed.Seaweed, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    return seaweed.new_bucket()


@pytest.fixture
def run(bucket: str, seaweed: seaweed.Seaweed) -> Penstock:
    return Penstock(f"s3://{bucket}/queue?region=us-east-1&endpoint={seaweed.endpoint}")


def test_a_job_goes_in_and_shows(run: Penstock) -> None:
    assert run("enqueue", "add", "1", "--id", "a").code == 0
    assert run("stats", "--json").object["totals"]["pending"] == 1


def test_doctor_finds_a_real_store_fit(run: Penstock) -> None:
    run("enqueue", "add", "1")
    checks = run("doctor", "--json").lines
    assert {check["check"]: check for check in checks if check["verdict"] == "fail"} == {}
    assert len(checks) == 24


def test_bench_leaves_nothing_in_the_bucket(
    run: Penstock, bucket: str, seaweed: seaweed.Seaweed
) -> None:
    assert run("bench", "--jobs", "50").code == 0

    async def keys() -> list[str]:
        store = seaweed.store(bucket)
        return [entry.key async for entry in store.list("")]

    assert asyncio.run(keys()) == []


def test_a_bucket_that_does_not_exist_is_one_line(seaweed: seaweed.Seaweed, bucket: str) -> None:
    url = f"s3://no-such-bucket-here/queue?region=us-east-1&endpoint={seaweed.endpoint}"
    ran = Penstock(url)("stats")
    assert ran.code == 1
    assert ran.stderr.count("\n") == 1


ACCESS_KEY, SECRET_KEY = seaweed.ACCESS_KEY, seaweed.SECRET_KEY
