"""Making a queue, and setting a bucket up for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.address import parse
from penstock.engines.records.tasks.names import task_key, task_name
from penstock.errors import NoVersions
from penstock.testing.conformance.backend.steps import completed, story
from penstock.wiring import open_store
from tests.cli.running import Penstock
from tests.servers import seaweed


@pytest.fixture
def bucket(seaweed: seaweed.Seaweed, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    return seaweed.new_bucket()


@pytest.fixture
def url(bucket: str, seaweed: seaweed.Seaweed) -> str:
    return f"s3://{bucket}/queue?region=us-east-1&endpoint={seaweed.endpoint}"


@pytest.mark.parametrize("layout", ["log", "single", "tasks"])
def test_a_queue_is_made_with_a_layout_and_found_without(layout: str, tmp_path: Path) -> None:
    run = Penstock(f"file://{tmp_path}/queue")
    assert run("init", "--layout", layout).code == 0
    assert json.loads((tmp_path / "queue" / "penstock.json").read_bytes())["layout"] == layout
    assert run("init", "--json").object["events"] == ("per_job" if layout == "tasks" else "ordered")
    assert run("enqueue", "add", "1").code == 0
    assert run("stats", "--json").object["totals"]["pending"] == 1
    assert run("doctor").code == 0
    other = "single" if layout == "log" else "log"
    assert run("init", "--layout", other).code == 2


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_only_a_bucket_can_be_set_up(scheme: str, tmp_path: Path) -> None:
    ran = Penstock(f"{scheme}://{tmp_path}/queue")("init", "--versioning")
    assert ran.code == 2
    assert "S3 buckets" in ran.stderr
    assert not (tmp_path / "queue").exists()


def test_a_server_is_no_bucket_and_its_password_is_not_shown() -> None:
    ran = Penstock("redis://me:swordfish@127.0.0.1:1/0")("init", "--versioning")
    assert ran.code == 2
    assert "redis://…@127.0.0.1:1/0" in " ".join(ran.stderr.split())
    assert "swordfish" not in ran.stderr


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    ran = Penstock(f"file://{tmp_path}/queue")("init", "--layout", "heap")
    assert ran.code == 2
    assert "log, single, tasks" in ran.stderr


@pytest.mark.xdist_group("s3")
def test_layout_tasks_wants_versions_unless_told_otherwise(url: str) -> None:
    pytest.importorskip("boto3")
    run = Penstock(url)
    refused = run("init", "--layout", "tasks")
    assert refused.code == 1
    assert "penstock init URL --versioning" in refused.stderr
    with pytest.raises(NoVersions):
        asyncio.run(_enqueue(url))
    assert run("init", "--allow-no-versioning", "--json").object["versions"] is False
    asyncio.run(_enqueue(url, allow_no_versioning=True))


@pytest.mark.xdist_group("s3")
def test_versions_and_origins_are_set(url: str, bucket: str, seaweed: seaweed.Seaweed) -> None:
    pytest.importorskip("boto3")
    origin = "https://dashboard.example.com"
    ran = Penstock(url)("init", "--layout", "tasks", "--versioning", "--cors", origin, "--json")
    assert ran.object["versions"] is True
    client = _client(seaweed)
    [rule] = client.get_bucket_cors(Bucket=bucket)["CORSRules"]
    assert rule["AllowedOrigins"] == [origin]
    assert {"GET", "PUT"} <= set(rule["AllowedMethods"])
    client.close()


@pytest.mark.xdist_group("s3")
def test_the_history_of_a_job_that_is_gone_is_in_the_versions(url: str) -> None:
    pytest.importorskip("boto3")
    assert Penstock(url)("init", "--layout", "tasks", "--versioning").code == 0
    asyncio.run(_outlive(url))


async def _outlive(url: str) -> None:
    store = open_store(parse(url, {}))
    async with penstock.open(url) as queue:
        assert queue.capabilities.versions
        id = await completed(queue, id="job")
        await store.delete(task_key(task_name("default", id)))
        assert await queue.get(id) is None
        assert await story(queue, id) == ["enqueued", "claimed", "completed"]
    await store.close()


async def _enqueue(url: str, **options: Any) -> None:
    async with penstock.open(url, **options) as queue:
        await queue.enqueue("work")


def _client(server: seaweed.Seaweed) -> Any:
    boto3 = pytest.importorskip("boto3")
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


ACCESS_KEY, SECRET_KEY = seaweed.ACCESS_KEY, seaweed.SECRET_KEY
