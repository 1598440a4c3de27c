"""How a Redis is reached: with a certificate of one's own, and through Sentinels."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.sentinel
from redis.asyncio.sentinel import SentinelConnectionPool

import penstock
from penstock.engines.records.redis import connection
from penstock.engines.records.redis.reaching import reach
from penstock.errors import InvalidInput, InvalidURL, StoreError, StoreUnavailable
from tests.records.tls_proxy import CERTIFICATE, KEY, tls_proxy
from tests.servers.redis import OwnRedis, Redis, own_redis, own_sentinel
from tests.servers.shared import free_port, is_up_in_time

SERVICE = "jobs"
FAILOVER_SECONDS_MAX = 120.0
JOBS = 5


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnRedis]:
    with own_redis(_made(tmp_path / "own")) as server:
        yield server


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def _works(url: str, **more: Any) -> None:
    async with penstock.open(url, **more) as queue:
        receipt = await queue.enqueue("work")
        [job] = await queue.claim()
        assert job.id == receipt.id
        await queue.ack(job)


async def test_a_server_that_asks_for_a_certificate_gets_the_one_in_the_url(own: OwnRedis) -> None:
    async with tls_proxy(own.port, asks_for_certificate=True) as port:
        await _works(
            f"rediss://127.0.0.1:{port}/0?ssl_certfile={CERTIFICATE}&ssl_keyfile={KEY}"
            f"&ssl_ca_certs={CERTIFICATE}&prefix=mutual"
        )
        client = redis.Redis(
            port=port,
            host="127.0.0.1",
            ssl=True,
            ssl_certfile=str(CERTIFICATE),
            ssl_keyfile=str(KEY),
            ssl_ca_certs=str(CERTIFICATE),
        )
        async with penstock.open(store=client, prefix="mutual") as queue:
            assert queue.capabilities.backend.startswith("rediss://")
            assert (await queue.stats()).totals["completed"] == 1
        client.close()


def test_a_check_of_the_clients_that_is_not_done_here_is_not_left_out_unsaid() -> None:
    client = redis.Redis(host="host", ssl=True, ssl_validate_ocsp=True)
    with pytest.raises(InvalidInput, match="ssl_validate_ocsp"):
        penstock.open(store=client)


async def test_without_a_certificate_that_server_is_not_reached(own: OwnRedis) -> None:
    async with tls_proxy(own.port, asks_for_certificate=True) as port:
        with pytest.raises(StoreError):
            await _works(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={CERTIFICATE}")


async def test_a_certificate_need_not_be_checked(own: OwnRedis) -> None:
    async with tls_proxy(own.port) as port:
        await _works(f"rediss://127.0.0.1:{port}/0?ssl_cert_reqs=none&ssl_check_hostname=false")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://host/0?ssl_certfile=/a", "rediss://"),
        ("redis+sentinel://host/jobs?ssl_ca_certs=/a", r"rediss\+sentinel://"),
        ("rediss://host/0?ssl_keyfile=/a", "ssl_certfile, too"),
        ("rediss://host/0?ssl_cert_reqs=perhaps", "required or optional or none"),
        ("rediss://host/0?ssl_check_hostname=off", "true or false"),
        ("rediss://host/0?ssl_certfile=", "a path"),
        ("rediss://host/0?ssl_ca_certs=/no/such/file.pem", "no such file"),
        ("rediss://host/0?ssl_ciphers=all", "has no such option"),
        ("redis://host/0?sentinel_password=secret", "has no such option"),
        ("redis+sentinel://host:26379", "/service/0"),
        ("redis+sentinel://host:26379/", "/service/0"),
        ("redis+sentinel:///jobs", "/service/0"),
        ("redis+sentinel://host,,other/jobs/0", "/service/0"),
        ("redis+sentinel://host/jobs/zero", "/service/0"),
        ("redis+sentinel://host:seven/jobs/0", "no number"),
        ("redis+sentinel://host:99999/jobs/0", "above 65535"),
    ],
)
def test_an_address_that_can_not_be_meant_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidURL, match=why) as raised:
        penstock.open(url)
    assert "secret" not in str(raised.value)


def test_who_asks_the_sentinels_is_another_than_who_asks_the_master() -> None:
    name, pool = reach(
        "rediss+sentinel://me:p%40ss@one:1,[::1]:2,three/my%20jobs/3"
        f"?ssl_ca_certs={CERTIFICATE}&sentinel_username=guard&sentinel_password=word"
    )
    assert name == "rediss+sentinel://…@one:1,[::1]:2,three/my%20jobs/3"
    assert isinstance(pool, SentinelConnectionPool)
    assert pool.service_name == "my jobs"
    said = pool.connection_kwargs
    assert (said["username"], said["password"], said["db"]) == ("me", "p@ss", 3)
    asked = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"]) for one in asked] == [
        ("one", 1), ("::1", 2), ("three", 26_379)
    ]  # fmt: skip
    assert {(one["username"], one["password"]) for one in asked} == {("guard", "word")}
    assert {one["ssl_ca_certs"] for one in [said, *asked]} == {str(CERTIFICATE)}


class Watched:
    """A master, its replica, and a Sentinel that tells who the master is."""

    def __init__(self, master: OwnRedis, replica: OwnRedis, sentinel: str) -> None:
        self.master = master
        self.replica = replica
        self.sentinel = sentinel

    @property
    def url(self) -> str:
        # The first is not there: the next is asked.
        return f"redis+sentinel://127.0.0.1:{free_port()},{self.sentinel}/{SERVICE}/0"

    async def replicated(self) -> None:
        async with redis.asyncio.Redis.from_url(self.master.url) as client:
            assert await client.wait(1, 0) == 1

    @asynccontextmanager
    async def switching(self) -> AsyncIterator[None]:
        """Until the Sentinel says that there is another master."""
        async with (
            asyncio.timeout(FAILOVER_SECONDS_MAX),
            redis.asyncio.Redis.from_url(f"redis://{self.sentinel}") as client,
            client.pubsub() as events,
        ):
            await events.subscribe("+switch-master")
            yield
            async for event in events.listen():
                if event["type"] == "message":
                    return


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with (
        own_redis(_made(tmp_path / "master")) as master,
        own_redis(
            _made(tmp_path / "replica"), "--replicaof", "127.0.0.1", str(master.port)
        ) as replica,
        own_sentinel(tmp_path / "sentinel", SERVICE, master) as sentinel,
        redis.Redis.from_url(f"redis://{sentinel}") as client,
    ):

        def knows_replica() -> bool:
            found = client.sentinel_slaves(SERVICE)
            return any(one["master-link-status"] == "ok" for one in found)

        assert is_up_in_time(lambda: True, knows_replica)
        yield Watched(master, replica, sentinel)


@pytest.mark.parametrize("fate", ["killed", "frozen"])
async def test_when_the_master_goes_the_queue_goes_on_at_its_replica(
    watched: Watched, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS_MAX", 2.0)
    async with penstock.open(watched.url, clock_skew_seconds=0) as queue:
        await asyncio.gather(*(queue.enqueue("work", id=f"before-{n}") for n in range(JOBS)))
        await watched.replicated()
        async with watched.switching():
            if fate == "killed":
                watched.master.kill()
            else:
                os.kill(watched.master.pid, signal.SIGSTOP)
        async with asyncio.timeout(FAILOVER_SECONDS_MAX):
            await asyncio.gather(*(queue.enqueue("work", id=f"after-{n}") for n in range(JOBS)))
            jobs = await queue.claim(3 * JOBS)
            assert len(jobs) == 2 * JOBS
            await asyncio.gather(*(queue.ack(job) for job in jobs))
    with redis.Redis.from_url(watched.replica.url) as client:
        assert client.keys("{penstock}*")
    if fate == "killed":
        watched.master.start()


async def test_one_who_waits_for_jobs_is_woken_by_the_new_master(watched: Watched) -> None:
    async with penstock.open(watched.url, clock_skew_seconds=0) as queue:
        waiting = asyncio.create_task(queue.claim(wait_seconds=FAILOVER_SECONDS_MAX))
        await watched.replicated()
        async with watched.switching():
            watched.master.kill()
        async with asyncio.timeout(FAILOVER_SECONDS_MAX):
            receipt = await queue.enqueue("work")
            [job] = await waiting
        assert job.id == receipt.id
    watched.master.start()


@pytest.mark.parametrize("is_blocking", [True, False], ids=["blocking", "async"])
async def test_a_client_for_the_master_is_taken(watched: Watched, *, is_blocking: bool) -> None:
    host, port = watched.sentinel.split(":")
    kind: Any = redis.sentinel.Sentinel if is_blocking else redis.asyncio.Sentinel
    client = kind([(host, int(port))]).master_for(SERVICE)
    async with penstock.open(store=client) as queue:
        assert queue.capabilities.backend == f"redis+sentinel://{watched.sentinel}/{SERVICE}/0"
        await queue.enqueue("work")
    await _works(watched.url, prefix="other")


async def test_sentinels_that_are_away_or_know_no_such_master_are_said(
    redis_server: Redis,
) -> None:
    with pytest.raises(StoreUnavailable, match="No master found for 'jobs'"):
        await _works(f"redis+sentinel://127.0.0.1:{free_port()}/jobs/0")
    server = redis_server.url.removeprefix("redis://").removesuffix("/0")
    with pytest.raises(StoreError):
        await _works(f"redis+sentinel://{server}/jobs/0")
