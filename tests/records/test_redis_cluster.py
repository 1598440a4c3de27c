"""A real cluster: three owners of slots and a replica each, one of which has the queue."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

import penstock
from penstock.engines.records.redis import ear
from penstock.engines.records.redis.store import RedisStore
from penstock.kernel.job import State
from penstock.runtime.services import Services
from penstock.testing.conformance.backend.steps import nonzero
from tests.servers.redis import OwnRedis, own_redis
from tests.servers.shared import is_up_in_time

SLOTS = 16_384
NODE_TIMEOUT_MS = 2_000
HANG_SECONDS = 90.0


class Cluster:
    """Its nodes; the second half are the replicas of the first, in the same order."""

    def __init__(self, nodes: list[OwnRedis]) -> None:
        self.nodes = nodes
        self._clients: list[Any] = [redis.Redis.from_url(node.url) for node in nodes]

    def form(self) -> None:
        owners = len(self.nodes) // 2
        for n, client in enumerate(self._clients[:owners]):
            own = range(n * SLOTS // owners, (n + 1) * SLOTS // owners)
            client.execute_command("CLUSTER ADDSLOTS", *own)
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", n + 1)
        for node in self.nodes[1:]:
            self._clients[0].execute_command("CLUSTER MEET", "127.0.0.1", node.port)
        assert is_up_in_time(lambda: True, lambda: all(map(self._knows_all, self._clients)))
        for n, client in enumerate(self._clients[owners:]):
            client.execute_command("CLUSTER REPLICATE", self._id(n))
        assert is_up_in_time(lambda: True, self._is_well)

    def owner(self, name: str) -> int:
        slot = self._clients[0].execute_command("CLUSTER KEYSLOT", name)
        return next(n for n in range(3) if slot < (n + 1) * SLOTS // 3)

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _id(self, n: int) -> str:
        return str(self._clients[n].execute_command("CLUSTER MYID").decode())

    def _knows_all(self, client: Any) -> bool:
        return f"cluster_known_nodes:{len(self.nodes)}" in _told(client, "CLUSTER INFO")

    def _is_well(self) -> bool:
        replicas = self._clients[len(self.nodes) // 2 :]
        return all(
            "cluster_state:ok" in _told(one, "CLUSTER INFO") for one in self._clients
        ) and all(one.info("replication").get("master_link_status") == "up" for one in replicas)


def _told(client: Any, command: str) -> str:
    answer = client.execute_command(command.encode())
    if isinstance(answer, dict):
        return "\n".join(f"{name}:{value}" for name, value in answer.items())
    return bytes(answer).decode()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS))
    with ExitStack() as stack:
        nodes: list[OwnRedis] = []
        for n in range(6):
            folder = tmp_path / str(n)
            folder.mkdir()
            nodes.append(stack.enter_context(own_redis(folder, *settings, "--save", "")))
        found = Cluster(nodes)
        stack.callback(found.close)
        found.form()
        yield found


async def test_an_owner_that_dies_is_followed_to_its_replica(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ear, "PONG_SECONDS_MAX", 2.0)
    owner = cluster.owner("{penstock}/head")
    stranger = cluster.nodes[(owner + 1) % 3]
    async with penstock.open(stranger.url) as queue, penstock.open(stranger.url) as worker:
        await queue.enqueue("work", id="before")
        async with asyncio.timeout(HANG_SECONDS), asyncio.TaskGroup() as group:
            await worker.ack(await worker.claim(1, wait_seconds=HANG_SECONDS))
            waiting = group.create_task(worker.claim(1, wait_seconds=HANG_SECONDS))
            assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 1}
            cluster.nodes[owner].kill()
            assert (await queue.enqueue("work", id="after")).status == "queued"
        [job] = waiting.result()
        assert job.id == "after"
        await worker.ack(job)
        async with penstock.open(stranger.url) as later:
            assert "after" in [one.id async for one in later.jobs()]
        cluster.nodes[owner].start()


@asynccontextmanager
async def forgetful(port: int) -> AsyncIterator[Forgetful]:
    """A router in front of a server that can forget the connections it has."""
    router = Forgetful()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        answers, questions = await asyncio.open_connection("127.0.0.1", port)
        forgotten, ended = router.connect()
        await asyncio.gather(
            _pass_on(reader, questions, forgotten), _pass_on(answers, writer, forgotten)
        )
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        router.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        yield router
        for _, ended in router.connections:
            await ended.wait()


class Forgetful:
    def __init__(self) -> None:
        self.url = ""
        self.connections: list[tuple[asyncio.Event, asyncio.Event]] = []
        """Of each, whether it is forgotten, and whether it has ended."""

    def connect(self) -> tuple[asyncio.Event, asyncio.Event]:
        self.connections.append((asyncio.Event(), asyncio.Event()))
        return self.connections[-1]

    def forget(self) -> None:
        for forgotten, _ in self.connections:
            forgotten.set()


async def _pass_on(reader: StreamReader, writer: StreamWriter, forgotten: asyncio.Event) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            if not forgotten.is_set():
                writer.write(data)
                await writer.drain()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_subscription_that_has_gone_silent_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a router has forgotten a connection: nothing is refused, and nothing comes."""
    monkeypatch.setattr(ear, "SILENT_SECONDS_MAX", 0.0)
    monkeypatch.setattr(ear, "PONG_SECONDS_MAX", 0.0)
    with own_redis(tmp_path) as server:
        async with forgetful(server.port) as router:
            store = RedisStore(router.url, "silent", Services())
            await store.open()
            await store.changed(0)
            router.forget()
            before = len(router.connections)
            async with asyncio.timeout(HANG_SECONDS):
                while len(router.connections) == before:
                    await store.changed(0.01)
            await store.close()
