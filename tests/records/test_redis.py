"""Redis: what it says of itself, what it refuses, and answers that are lost."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.redis import connection, finding, reaching, server, writing
from penstock.engines.records.redis.connection import Connection
from penstock.engines.records.redis.store import RedisStore
from penstock.errors import (
    InvalidURL,
    MissingExtra,
    NewerFormat,
    PenstockError,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnfit,
    Unsupported,
)
from penstock.kernel.departures import Departed
from penstock.kernel.events import commit_of
from penstock.kernel.job import State
from penstock.ports.records import Found, Need, Put, Remembered
from penstock.runtime.services import Services
from penstock.testing.clock import EPOCH
from penstock.testing.conformance.backend.steps import ids, nonzero
from penstock.testing.conformance.record_steps import (
    a_change,
    a_record,
    candidates,
    lives,
    put,
    write,
)
from tests.records.tls_proxy import CERTIFICATE, tls_proxy
from tests.servers.redis import OwnRedis, Redis, own_redis
from tests.servers.shared import free_port, is_up_in_time

JOBS = 60
SLOTS = 16_384


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.fixture
def url(redis_server: Redis, prefix: str) -> str:
    return f"{redis_server.url}?prefix={prefix}"


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
async def store(redis_server: Redis, prefix: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_server.url, prefix, Services())
    await store.open()
    yield store
    await store.close()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    """One whose settings tests may change, and change back."""
    folder = tmp_path_factory.mktemp("redis")
    with own_redis(folder, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


async def opened(url: str) -> None:
    async with penstock.open(url):
        pass


# What it says of itself


async def test_durability_is_what_the_server_says(
    url: str, own: OwnRedis, caplog: pytest.LogCaptureFixture
) -> None:
    async with penstock.open(own.url) as queue:
        assert queue.capabilities.durability == "strict"
    assert caplog.messages == []
    async with penstock.open(url) as queue:
        assert queue.capabilities.durability == "relaxed"
    [said] = caplog.messages
    assert "appendfsync always" in said


async def test_a_server_that_does_not_say_is_taken_as_relaxed(
    own: OwnRedis, caplog: pytest.LogCaptureFixture
) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.execute_command("ACL SETUSER worker on >secret ~* &* +@all -config")
    url = own.url.replace("://", "://worker:secret@")
    async with penstock.open(url) as queue:
        assert queue.capabilities.durability == "relaxed"
        assert "secret" not in queue.capabilities.backend
    [said] = caplog.messages
    assert "does not say" in said
    assert "secret" not in said


async def test_a_server_that_evicts_is_refused(
    own: OwnRedis, caplog: pytest.LogCaptureFixture
) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            await opened(own.url)
            assert "set it to noeviction" in caplog.messages[0]
            client.config_set("maxmemory", "1gb")
            with pytest.raises(StoreUnfit, match="set it to noeviction"):
                await opened(own.url)
        finally:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")


async def test_a_server_that_is_full_says_so_and_nothing_is_lost(own: OwnRedis) -> None:
    with redis.Redis.from_url(own.url) as client:
        async with penstock.open(f"{own.url}?prefix=full") as queue:
            await queue.enqueue("work", id="before")
            client.config_set("maxmemory", 1)
            try:
                with pytest.raises(StoreFull, match="nothing was lost"):
                    await queue.enqueue("work", id="refused")
                assert nonzero((await queue.stats()).totals) == {State.PENDING: 1}
            finally:
                client.config_set("maxmemory", 0)
            assert (await queue.enqueue("work", id="refused")).status == "queued"


async def test_a_server_that_is_too_old_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "facts_in", lambda info: {"redis_version": "6.0.16"})
    with pytest.raises(Unsupported, match=r"Redis 6\.0\.16 .*6\.2 or newer"):
        await opened(url)


async def test_a_wrong_password_is_said_and_not_shown(own: OwnRedis) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.config_set("requirepass", "right")
        try:
            for credentials in ("", ":wr0ng@", "nobody:wr0ng@"):
                with pytest.raises(StoreDenied, match="check the credentials") as raised:
                    await opened(own.url.replace("://", f"://{credentials}"))
                assert "wr0ng" not in str(raised.value)
            await opened(own.url.replace("://", "://:right@"))
        finally:
            client.config_set("requirepass", "")


async def test_a_server_that_is_not_there_is_said_at_once() -> None:
    async with asyncio.timeout(20):
        with pytest.raises(StoreUnavailable, match="redis://127"):
            await opened(f"redis://127.0.0.1:{free_port()}/0")


async def test_a_server_without_tls_is_said(
    redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(reaching._OURS, "socket_connect_timeout", 0.2)
    with pytest.raises(StoreUnavailable, match="does it speak TLS"):
        await opened(redis_server.url.replace("redis://", "rediss://"))


async def test_a_queue_over_tls_works_like_any_other(
    own: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    async with tls_proxy(own.port) as port:
        async with penstock.open(f"rediss://127.0.0.1:{port}/0?prefix=tls") as queue:
            await queue.enqueue("work", id="secret")
            [job] = await queue.claim(1)
            await queue.ack(job)
        async with penstock.open(f"{own.url}?prefix=tls") as queue:
            assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 1}


async def test_a_certificate_that_nobody_vouches_for_is_refused(own: OwnRedis) -> None:
    async with tls_proxy(own.port) as port:
        with pytest.raises(StoreError, match=r"no TLS connection: .*certificate") as raised:
            await opened(f"rediss://127.0.0.1:{port}/0")
    assert not isinstance(raised.value, StoreUnavailable), "trying again is of no use"


async def test_a_format_newer_than_the_code_is_refused(
    url: str, prefix: str, client: redis.Redis
) -> None:
    await opened(url)
    client.set(f"{{{prefix}}}/format", 99)
    with pytest.raises(NewerFormat, match="upgrade penstock") as raised:
        await opened(url)
    assert (raised.value.level, raised.value.known) == (99, 1)


@pytest.mark.parametrize(
    "address",
    ["redis://", "redis://host/queue", "redis://host/0?prefix={a}", "redis://host/0?layout=log",
     "redis://me:pass/word@host/0", "redis://me:passw0rd@host/0?wrong=1"],
)  # fmt: skip
def test_an_address_that_names_no_server_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(InvalidURL) as raised:
        penstock.open(address)
    assert "pass" not in str(raised.value)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith("penstock.engines.records.redis"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"penstock\[redis\]"):
        penstock.open("redis://localhost:6379/0")


async def test_all_names_of_a_queue_have_one_hash_tag(
    url: str, prefix: str, client: redis.Redis
) -> None:
    async with penstock.open(url, offload=True, payload_bytes_max=10) as queue:
        await queue.enqueue("work", "x" * 100, key="k")
        await queue.ack(await queue.claim(1), "done")
    names = [bytes(key) for key in client.scan_iter(count=1_000)]
    ours = [name for name in names if prefix.encode() in name]
    assert len(ours) > 8
    assert all(name.startswith(b"{%b}/" % prefix.encode()) for name in ours)


async def test_a_queue_of_a_cluster_is_found_from_any_of_its_nodes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("owner", "stranger")]
    for folder in folders:
        folder.mkdir()
    with ExitStack() as stack:
        owner, stranger = [
            stack.enter_context(own_redis(folder, "--cluster-enabled", "yes")) for folder in folders
        ]
        with redis.Redis.from_url(owner.url) as client:
            client.execute_command("CLUSTER ADDSLOTS", *range(SLOTS))
            client.execute_command("CLUSTER MEET", "127.0.0.1", stranger.port)
        with redis.Redis.from_url(stranger.url) as client:

            def is_known() -> bool:
                return b"cluster_state:ok" in bytes(client.execute_command(b"CLUSTER INFO"))

            assert is_up_in_time(lambda: True, is_known)
        async with penstock.open(stranger.url) as queue:
            await queue.enqueue("work")
            await queue.ack(await queue.claim(1, wait_seconds=5))
            assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 1}


# Turns


async def test_what_one_turn_has_found_is_hidden_from_others_until_it_ends(
    store: RedisStore, redis_server: Redis, prefix: str
) -> None:
    other = RedisStore(redis_server.url, prefix, Services())
    await put(store, *(a_record(str(n), n) for n in range(3)))
    found = await store._find(lambda head: candidates(2), only_looks=False)
    assert await claimable(other) == [2]
    assert await lives(other, candidates()) == [0, 1, 2], "who only looks sees everything"
    await store._release(found)
    assert await claimable(other) == [0, 1, 2]
    await other.close()


async def test_what_a_dead_process_has_found_comes_back(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "RESERVATION_SECONDS_MAX", 0.001)
    monkeypatch.setattr(finding, "TURN_SECONDS", 0.001)
    monkeypatch.setattr(finding, "TURN_SECONDS_PER_RECORD", 0.0)
    await put(store, a_record("a", 1))
    dead = await store._find(lambda head: candidates(), only_looks=False)
    async with asyncio.timeout(20):
        while await claimable(store) != [1]:
            pass
        while (await store.head()).readable < (await store.head()).commit:
            pass
    change = a_change(dead.found.commit, puts=[Put(a_record("late", 2), None)])
    assert not await store._write(dead, change), "its number was given up"


async def test_commits_above_one_that_is_under_way_are_not_readable(store: RedisStore) -> None:
    await put(store, a_record("a", 1))
    slow = await store._find(lambda head: Need(), only_looks=False)
    await put(store, a_record("b", 2))
    head = await store.head()
    assert (head.commit, head.readable) == (slow.found.commit + 1, slow.found.commit - 1)
    assert [number for number, _ in await store.commits(0, 9)] == [slow.found.commit - 1]
    assert await store._write(slow, a_change(slow.found.commit))
    numbers = [slow.found.commit - 1, slow.found.commit, slow.found.commit + 1]
    assert [number for number, _ in await store.commits(0, 9)] == numbers
    assert (await store.head()).readable == head.commit


async def test_a_write_whose_answer_was_lost_is_found_out(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, "write", times=2)
    assert await write(store, puts=[Put(a_record("a", 1), None)])
    assert await lives(store, candidates()) == [1]
    assert len(await store.commits(0, 9)) == 1, "it was written once"


async def test_a_refusal_whose_answer_was_lost_stays_one(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, a_record("a", 1))
    lose_answers(monkeypatch, "write", times=1)
    assert not await write(store, puts=[Put(a_record("a", 2), None)])
    assert await lives(store, candidates()) == [1]


async def test_a_number_that_was_given_twice_is_no_proof(store: RedisStore) -> None:
    """As after a failover that lost the last commits: another turn has this one's number."""
    slow = await store._find(lambda head: Need(), only_looks=False)
    await store._release(slow)
    await store._connection.ask("HSET", store._keys.head, "number", slow.found.commit - 1)
    await put(store, a_record("a", 1))
    assert (await store.head()).commit == slow.found.commit
    assert not await store._write(slow, a_change(slow.found.commit))


async def test_a_batch_of_many_thousands_is_one_commit(url: str) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue_many([NewJob("work", key=str(n)) for n in range(6_000)])
        claimed = await queue.claim(6_000)
        assert len(claimed) == 6_000
        await queue.ack(claimed)
        assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 6_000}
        events = [event async for event in queue.events("beginning", follow=False)]
        assert len({commit_of(event.position) for event in events}) == 3


@pytest.mark.parametrize(
    "command",
    ["sadd", "zadd", "hincrby", "mset", "del", "append", "strlen", "zrevrangebylex", "hget"],
)
async def test_who_may_not_run_a_part_of_a_write_writes_nothing(
    own: OwnRedis, prefix: str, command: str
) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.execute_command(f"ACL SETUSER {command} on >secret ~* &* +@all -{command}")
        async with penstock.open(f"{own.url}?prefix={prefix}") as queue:
            await queue.enqueue("work", id="before")
            url = own.url.replace("://", f"://{command}:secret@")
            async with penstock.open(f"{url}?prefix={prefix}") as denied:
                with pytest.raises(StoreDenied):
                    await denied.enqueue("other", queue="other", id="refused")
            assert nonzero((await queue.stats()).totals) == {State.PENDING: 1}
            events = [event async for event in queue.events("beginning", follow=False)]
            assert len(events) == 1


async def test_who_may_not_announce_commits_all_the_same(own: OwnRedis, prefix: str) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.execute_command("ACL SETUSER mute on >secret ~* resetchannels +@all")
    url = own.url.replace("://", "://mute:secret@")
    async with penstock.open(f"{url}?prefix={prefix}") as queue:
        await queue.enqueue("work")
        await queue.ack(await queue.claim(1))
        assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 1}


async def test_a_turn_is_two_round_trips(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    execute = Connection._execute

    async def counted(self: Connection, *command: Any) -> Any:
        sent.append(command[0])
        return await execute(self, *command)

    async with penstock.open(url) as queue:
        await queue.ack(await queue.claim(1))
        await queue.enqueue("work")
        monkeypatch.setattr(Connection, "_execute", counted)
        await queue.enqueue("work")
        [job] = await queue.claim(1)
        await queue.ack(job)
    assert sent == ["EVALSHA"] * 6


# Trouble


async def test_scripts_that_the_server_has_forgotten_are_sent_again(
    url: str, client: redis.Redis
) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue("work")
        client.script_flush()
        [job] = await queue.claim(1)
        client.script_flush()
        await queue.ack(job)


async def test_connections_that_break_in_the_middle_cost_nothing(
    own: OwnRedis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    with redis.Redis.from_url(own.url) as client:
        async with penstock.open(f"{own.url}?prefix=broken") as queue:
            done: list[str] = []

            def kill() -> None:
                client.execute_command("CLIENT KILL TYPE normal SKIPME yes")

            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                group.create_task(_fill(queue, kill))
                for _ in range(3):
                    group.create_task(_drain(queue, done, kill))
            assert sorted(done) == sorted({f"job-{n}" for n in range(JOBS)})


async def test_a_master_that_becomes_a_replica_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a failover: for a while whoever was the master takes no writes, then it does again."""
    translate, refused = Connection.translate, asyncio.Event()

    def note(self: Connection, error: redis.RedisError | OSError) -> PenstockError:
        # Servers have other words for it, but one code.
        assert isinstance(error, redis.ReadOnlyError) or "READONLY" in str(error)
        refused.set()
        return translate(self, error)

    monkeypatch.setattr(Connection, "translate", note)
    with two_servers(tmp_path) as (one, other, first, second):
        async with penstock.open(one.url) as queue:
            await queue.enqueue("work", id="before")
            _follow(second, one)
            second.replicaof("NO", "ONE")
            _follow(first, other)
            meanwhile = asyncio.create_task(queue.enqueue("work", id="meanwhile"))
            await refused.wait()
            assert not meanwhile.done()
            first.replicaof("NO", "ONE")
            assert (await meanwhile).status == "queued"
            assert await ids(queue) == ["before", "meanwhile"]


async def test_one_that_stays_a_replica_is_told_of_and_has_taken_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refused each time, so nobody has to guess what became of it."""
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.2)
    with two_servers(tmp_path) as (one, other, first, second):
        async with penstock.open(one.url) as queue:
            await queue.enqueue("work", id="before")
            _follow(second, one)
            second.replicaof("NO", "ONE")
            _follow(first, other)
            with pytest.raises(StoreUnavailable, match="read only replica"):
                await queue.enqueue("work", id="refused")
            first.replicaof("NO", "ONE")
            assert await ids(queue) == ["before"]
            assert (await queue.enqueue("work", id="refused")).status == "queued"


@contextmanager
def two_servers(folder: Path) -> Iterator[tuple[OwnRedis, OwnRedis, redis.Redis, redis.Redis]]:
    """And a client of each."""
    for name in ("one", "other"):
        (folder / name).mkdir()
    with (
        own_redis(folder / "one") as one,
        own_redis(folder / "other") as other,
        redis.Redis.from_url(one.url) as first,
        redis.Redis.from_url(other.url) as second,
    ):
        yield one, other, first, second


def _follow(replica: redis.Redis, master: OwnRedis) -> None:
    replica.replicaof("127.0.0.1", master.port)

    def is_synced() -> bool:
        return bool(replica.info("replication")["master_link_status"] == "up")

    assert is_up_in_time(lambda: True, is_synced)


async def _fill(queue: Queue, then: Callable[[], None]) -> None:
    for n in range(JOBS):
        await queue.enqueue("work", id=f"job-{n}")
        then()


async def _drain(queue: Queue, done: list[str], then: Callable[[], None]) -> None:
    while len(done) < JOBS:
        for job in await queue.claim(5, wait_seconds=0.2):
            await queue.ack(job)
            done.append(job.id)
            then()


async def claimable(store: RedisStore) -> list[int]:
    """What a turn that may write finds, and gives back."""
    found: list[Found] = []
    assert await store.turn(lambda head: candidates(), found.append, is_read=False)
    return sorted(stored.life for stored in found[-1].records)


def lose_answers(monkeypatch: pytest.MonkeyPatch, script: str, times: int) -> None:
    """The server does it, and nobody is told."""
    run_once, left = Connection.run_once, [None] * times

    async def run_and_lose(self: Connection, name: str, *arguments: Any, adds: bool = False) -> Any:
        answer = await run_once(self, name, *arguments, adds=adds)
        if name == script and left:
            left.pop()
            raise StoreUnavailable(self.name, "", "the connection broke")
        return answer

    monkeypatch.setattr(Connection, "run_once", run_and_lose)


# What a claim looks at


@pytest.mark.parametrize(
    ("queues", "types"),
    [(None, None), (None, ("rare",)), (("one",), None), (("one",), ("rare",))],
)
async def test_a_claim_asks_the_server_for_nothing_of_other_queues_and_types(
    own: OwnRedis, prefix: str, queues: tuple[str, ...] | None, types: tuple[str, ...] | None
) -> None:
    """In calls that its script makes; nobody else uses this server."""
    spent: list[int] = []
    async with penstock.open(f"{own.url}?prefix={prefix}") as queue:
        await queue.enqueue("work", queue="one")
        with redis.Redis.from_url(own.url) as client:
            for many in (5, 2_000):
                await queue.enqueue_many([NewJob("work", queue=f"q{n}") for n in range(many)])
                await queue.enqueue("rare", queue="one")
                client.config_resetstat()
                [job] = await queue.claim(1, queues=queues, types=types)
                told: Any = client.info("commandstats")
                spent.append(sum(each["calls"] for each in told.values()))
                await queue.release(job)
    assert spent[1] <= spent[0] + 20, spent


async def test_what_is_known_of_lanes_goes_when_they_are_empty(
    url: str, prefix: str, client: redis.Redis
) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue_many([NewJob(f"t{n % 3}", queue=f"q{n}") for n in range(9)])
        await queue.ack(await queue.claim(9))
    names = [name.decode() for name in client.scan_iter(f"{{{prefix}}}/*")]
    kinds = ("/lane/", "/lanes/", "/ready/", "/later/", "/tails/")
    assert not [name for name in names for kind in kinds if kind in name]


async def test_of_calls_that_left_the_oldest_are_forgotten_where_there_are_too_many(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "REMEMBERED_MAX", 3)
    for number in range(5):
        left = Remembered("default", str(number), Departed(EPOCH + 600 + number))
        assert await write(store, remembered=[left])
    assert [one.id for one in await store.remembered("default", 0.0)] == ["2", "3", "4"]
