"""Clients that an application has already are taken in place of a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import boto3
import psycopg
import psycopg_pool
import pytest
import redis
import redis.asyncio

import penstock
from penstock.errors import InvalidInput
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed


async def works(**place: Any) -> None:
    """A job goes in through one handle and out through another."""
    async with penstock.open(**place) as queue:
        receipt = await queue.enqueue("t", {"n": 1})
    async with penstock.open(**place) as queue:
        [job] = await queue.claim()
        assert job.id == receipt.id
        await queue.ack(job)


@pytest.fixture(params=[redis.Redis, redis.asyncio.Redis], ids=["blocking", "async"])
async def redis_client(
    request: pytest.FixtureRequest, redis_server: Redis
) -> AsyncIterator[redis.Redis | redis.asyncio.Redis]:
    client = request.param.from_url(redis_server.url, decode_responses=True)
    yield client
    closed = client.close() if request.param is redis.Redis else client.aclose()
    if closed is not None:
        await closed


async def test_a_client_of_redis_is_taken(redis_client: Any) -> None:
    await works(store=redis_client, prefix=uuid4().hex)


async def test_the_clients_own_connections_stay_its_owners(redis_server: Redis) -> None:
    client = redis.Redis.from_url(redis_server.url, decode_responses=True)
    await works(store=client, prefix=uuid4().hex)
    assert client.ping()
    client.close()


async def test_a_connection_of_psycopg_is_taken(postgres_server: Postgres) -> None:
    with psycopg.connect(postgres_server.new_database()) as connection:
        await works(store=connection)
        assert connection.execute("SELECT 1").fetchone() == (1,)


async def test_an_async_connection_of_psycopg_is_taken(postgres_server: Postgres) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_server.new_database()) as connection:
        await works(store=connection)


async def test_a_pool_of_psycopg_is_taken(postgres_server: Postgres) -> None:
    url = postgres_server.new_database()
    pool = psycopg_pool.ConnectionPool(url, kwargs={"autocommit": True}, open=False)
    await works(store=pool)


@pytest.fixture
def s3_client(seaweed: Seaweed) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=seaweed.endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


async def test_a_client_of_boto3_is_taken_with_the_url_of_its_bucket(
    s3_client: Any, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = seaweed.new_bucket()
    # Nothing but the client says where the server is and who asks.
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    await works(url=f"s3://{bucket}/queue", store=s3_client)
    assert s3_client.list_objects_v2(Bucket=bucket, Prefix="queue/")["KeyCount"] > 0


@pytest.mark.parametrize("url", [None, "memory://", "gs://bucket"])
async def test_a_client_of_boto3_needs_a_bucket(
    s3_client: Any, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    with pytest.raises(InvalidInput):
        async with penstock.open(url, store=s3_client):
            pass


async def test_a_url_beside_another_client_is_refused(redis_client: Any) -> None:
    opening: Callable[[], Any] = lambda: penstock.open("memory://", store=redis_client)  # noqa: E731
    with pytest.raises(InvalidInput, match="not both"):
        opening()
