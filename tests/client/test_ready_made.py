"""Clients that an application has already are taken in place of a URL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import obstore.store
import psycopg
import psycopg_pool
import pytest
import redis
import redis.asyncio

import penstock
from penstock.errors import InvalidInput, NoVersions, Unsupported
from penstock.stores.cloud import cloud_store_of
from tests.servers.azure import Azurite
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis, own_redis
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed
from tests.servers.shared import is_up_in_time

SLOTS = 16_384
KINDS = ("blocking", "async")


async def works(**place: Any) -> None:
    """A job goes in through one handle and out through another, and so with the blocking twin."""
    async with penstock.open(**place) as queue:
        receipt = await queue.enqueue("t", {"n": 1})
    async with penstock.open(**place) as queue:
        [job] = await queue.claim()
        assert job.id == receipt.id
        await queue.ack(job)
    await asyncio.to_thread(works_blocking, place)


def works_blocking(place: dict[str, Any]) -> None:
    with penstock.open_sync(**place) as queue:
        receipt = queue.enqueue("t", {"n": 1})
        [job] = queue.claim()
        assert job.id == receipt.id
        queue.ack(job)


@pytest.fixture(params=[redis.Redis, redis.asyncio.Redis], ids=KINDS)
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


@pytest.mark.parametrize("kind", [redis.ConnectionPool, redis.asyncio.ConnectionPool], ids=KINDS)
async def test_a_pool_of_redis_is_taken(kind: Any, redis_server: Redis) -> None:
    pool = kind.from_url(redis_server.url)
    await works(store=pool, prefix=uuid4().hex)


def test_a_client_with_connections_of_its_own_kind_is_refused() -> None:
    """They may go anywhere, and a connection of ours would go to what is at that host."""

    class Tunnel(redis.Connection):
        pass

    pool = redis.ConnectionPool(connection_class=Tunnel, host="inside")
    with pytest.raises(InvalidInput, match="Tunnel"):
        penstock.open(store=redis.Redis(connection_pool=pool))


async def test_the_prefix_says_which_queue_of_a_server(redis_client: Any) -> None:
    prefix = uuid4().hex
    async with penstock.open(store=redis_client, prefix=prefix) as queue:
        await queue.enqueue("t")
    async with penstock.open(store=redis_client, prefix=f"{prefix}-other") as queue:
        assert await queue.claim() == []


def test_a_layout_beside_a_client_of_redis_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^layout: redis:// has no such option"):
        penstock.open(store=redis.Redis(), layout="log")


@pytest.mark.parametrize("kind", [redis.RedisCluster, redis.asyncio.RedisCluster], ids=KINDS)
async def test_a_client_of_a_cluster_is_taken(kind: Any, tmp_path: Path) -> None:
    with own_redis(tmp_path, "--cluster-enabled", "yes") as server:
        with redis.Redis.from_url(server.url) as node:
            node.execute_command("CLUSTER ADDSLOTS", *range(SLOTS))

            def is_whole() -> bool:
                return b"cluster_state:ok" in bytes(node.execute_command(b"CLUSTER INFO"))

            assert is_up_in_time(lambda: True, is_whole)
        client = kind(host="127.0.0.1", port=server.port)
        await works(store=client, prefix=uuid4().hex)
        pinged = client.ping()
        assert await pinged if kind is redis.asyncio.RedisCluster else pinged
        closed = client.close() if kind is redis.RedisCluster else client.aclose()
        if closed is not None:
            await closed


async def test_a_connection_of_psycopg_is_taken(postgres_server: Postgres) -> None:
    with psycopg.connect(postgres_server.new_database()) as connection:
        await works(store=connection)
        assert connection.execute("SELECT 1").fetchone() == (1,)


async def test_an_async_connection_of_psycopg_is_taken(postgres_server: Postgres) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_server.new_database()) as connection:
        await works(store=connection)


@pytest.mark.parametrize("kind", [psycopg_pool.ConnectionPool, psycopg_pool.NullConnectionPool])
async def test_a_pool_of_psycopg_is_taken_and_stays_open(
    kind: type[psycopg_pool.ConnectionPool[Any]], postgres_server: Postgres
) -> None:
    url = postgres_server.new_database()
    with kind(url, kwargs={"autocommit": True}, min_size=0, max_size=2, open=True) as pool:
        await works(store=pool, schema="billing")
        with pool.connection() as connection:
            found = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname='billing'")
            assert found.fetchone() == (1,)


async def test_an_async_pool_of_psycopg_is_taken_and_stays_open(postgres_server: Postgres) -> None:
    url = postgres_server.new_database()
    async with psycopg_pool.AsyncConnectionPool(url, open=False) as pool:
        await works(store=pool)
        async with pool.connection() as connection:
            assert await (await connection.execute("SELECT 1")).fetchone() == (1,)


def test_a_connection_of_psycopg_that_is_closed_is_refused(postgres_server: Postgres) -> None:
    connection = psycopg.connect(postgres_server.new_database())
    connection.close()
    with pytest.raises(InvalidInput, match="closed"):
        penstock.open(store=connection)


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


@pytest.fixture
def s3_session() -> boto3.session.Session:
    return boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name="us-east-1")


@pytest.mark.parametrize("layout", ["log", "tasks"])
async def test_a_session_of_boto3_is_taken_with_the_url_of_its_bucket(
    layout: str, s3_session: Any, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = seaweed.new_bucket()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    await works(
        url=f"s3://{bucket}/queue?allow_no_versioning=on",
        store=s3_session,
        endpoint=seaweed.endpoint,
        layout=layout,
    )
    client = s3_session.client("s3", endpoint_url=seaweed.endpoint)
    assert client.list_objects_v2(Bucket=bucket, Prefix="queue/")["KeyCount"] > 0


async def test_a_resource_of_boto3_is_taken(s3_session: Any, seaweed: Seaweed) -> None:
    resource = s3_session.resource("s3", endpoint_url=seaweed.endpoint)
    await works(url=f"s3://{seaweed.new_bucket()}", store=resource)


async def test_a_client_of_boto3_for_something_else_is_refused(s3_session: Any) -> None:
    with pytest.raises(InvalidInput, match="for sqs"):
        async with penstock.open("s3://bucket", store=s3_session.client("sqs")):
            pass


async def test_the_layout_with_versions_asks_through_the_client_that_was_given(
    s3_client: Any, seaweed: Seaweed
) -> None:
    with pytest.raises(NoVersions):
        async with penstock.open(f"s3://{seaweed.new_bucket()}", store=s3_client, layout="tasks"):
            pass


def stores_of_obstore(seaweed: Seaweed, **settings: Any) -> obstore.store.S3Store:
    return obstore.store.S3Store(
        seaweed.new_bucket(),
        prefix="billing/queue",
        endpoint=seaweed.endpoint,
        region="us-east-1",
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
        **settings,
    )


@pytest.mark.parametrize("layout", ["log", "tasks"])
async def test_a_store_of_obstore_is_taken(layout: str, seaweed: Seaweed) -> None:
    client = stores_of_obstore(seaweed)
    await works(store=client, layout=layout, allow_no_versioning=True)
    listed = [meta["path"] async for page in client.list() for meta in page]
    assert "penstock.json" in listed, "it is under the store's own prefix"


async def test_a_store_of_obstore_that_repeats_is_not_made_to_repeat_our_puts(
    seaweed: Seaweed,
) -> None:
    client = stores_of_obstore(seaweed, retry_config={"max_retries": 9})
    store = cloud_store_of(client)
    assert isinstance(store._store, obstore.store.S3Store)
    retries = store._store.retry_config
    assert retries is not None
    assert retries["max_retries"] == 0
    assert store.name.endswith("/billing/queue")


async def test_a_store_of_obstore_for_azure_is_taken(azurite: Azurite) -> None:
    store = azurite.store()
    await works(store=store._store)


async def test_a_store_of_obstore_in_memory_is_taken() -> None:
    await works(store=obstore.store.MemoryStore())


async def test_a_store_of_obstore_that_can_not_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="opened by its URL"):
        async with penstock.open(store=obstore.store.LocalStore(tmp_path)):
            pass


@pytest.mark.parametrize("thing", [3, object(), "redis://host", psycopg.Cursor, boto3])
def test_what_is_no_client_is_refused_at_once_and_told_what_is(thing: object) -> None:
    for opening in (penstock.open, penstock.open_sync, penstock.import_writer):
        with pytest.raises(InvalidInput, match=r"store= (can't )?take"):
            open_now(opening, thing)


def open_now(opening: Callable[..., Any], thing: object) -> None:
    opened = opening(store=thing)
    opened.start()


def test_an_import_is_not_written_through_a_client_of_records() -> None:
    with pytest.raises(Unsupported, match="bulk imports"):
        penstock.import_writer(store=redis.Redis())


async def test_a_url_beside_another_client_is_refused(redis_client: Any) -> None:
    opening: Callable[[], Any] = lambda: penstock.open("memory://", store=redis_client)  # noqa: E731
    with pytest.raises(InvalidInput, match="not both"):
        opening()
