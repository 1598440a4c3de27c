"""Where a soak takes place: each backend with a server of its own, and what can be done to it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import redis

from tests.records.own_postgres import OwnPostgres, children_of, own_postgres
from tests.servers.redis import OwnRedis, own_redis, valkey_program
from tests.servers.seaweed import OwnSeaweed, own_seaweed

FULL_BYTES: Final = 64 * 1024


class Server(Protocol):
    def start(self) -> None: ...
    def kill(self) -> None: ...


class Place:
    """A queue's URL, and the server behind it if there is one."""

    url = ""
    server: Server | None = None
    forgets = False
    """Whether the server, killed, goes back to what it was some time ago."""

    def url_through(self, port: int) -> str:
        """The same by way of a proxy at that port."""
        return self.url

    @property
    def port(self) -> int:
        return 0

    def processes(self) -> list[int]:
        """Of the server, to be frozen."""
        return []

    def fill(self) -> None:
        raise NotImplementedError

    def empty(self) -> None:
        raise NotImplementedError

    def keep(self) -> None:
        """Where the server forgets: what it will know after the next kill."""

    @property
    def can_be_filled(self) -> bool:
        return type(self).fill is not Place.fill


class RedisPlace(Place):
    def __init__(self, server: OwnRedis, *, forgets: bool = False) -> None:
        self.server: OwnRedis = server
        self.forgets = forgets
        self.url = server.url

    @property
    def port(self) -> int:
        return self.server.port

    def url_through(self, port: int) -> str:
        return f"redis://127.0.0.1:{port}/0"

    def processes(self) -> list[int]:
        return [self.server.pid]

    def fill(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            used = int(client.info("memory")["used_memory"])
            client.config_set("maxmemory", used + FULL_BYTES)

    def empty(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.config_set("maxmemory", 0)

    def keep(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.save()


class PostgresPlace(Place):
    def __init__(self, server: OwnPostgres) -> None:
        self.server: OwnPostgres = server
        self.url = server.url

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def url_through(self, port: int) -> str:
        return self.url.replace(f":{self.port}/", f":{port}/")

    def processes(self) -> list[int]:
        return [self.server.pid, *children_of(self.server.pid)]


class SeaweedPlace(Place):
    def __init__(self, server: OwnSeaweed, layout: str) -> None:
        self.server: OwnSeaweed = server
        self._bucket = server.new_bucket()
        self._layout = layout
        self.url = self.url_through(server.port)

    @property
    def port(self) -> int:
        return self.server.port

    def url_through(self, port: int) -> str:
        return (
            f"s3://{self._bucket}/queue?endpoint=http://127.0.0.1:{port}&region=us-east-1"
            f"&layout={self._layout}&allow_no_versioning=on"
        )

    def processes(self) -> list[int]:
        return [self.server.pid]


class FilePlace(Place):
    def __init__(self, url: str) -> None:
        self.url = url


@contextmanager
def place_named(name: str) -> Iterator[Place]:
    """A new and empty one, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    try:
        match name:
            case "redis" | "valkey":
                # What it acknowledges has to be on the disk, or a kill may lose it.
                settings = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
                program = valkey_program() if name == "valkey" else None
                with own_redis(folder, *settings, program=program) as server:
                    yield RedisPlace(server)
            case "restored":
                with own_redis(folder, "--save", "") as server:
                    yield RedisPlace(server, forgets=True)
            case "postgres":
                with own_postgres() as postgres:
                    yield PostgresPlace(postgres)
            case "s3-log" | "s3-tasks":
                with own_seaweed(folder) as seaweed:
                    yield SeaweedPlace(seaweed, name.removeprefix("s3-"))
            case "folder-log" | "folder-tasks":
                layout = name.removeprefix("folder-")
                yield FilePlace(f"file://{folder}/queue?layout={layout}")
            case _:
                yield FilePlace(f"sqlite://{folder}/queue.db")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


NAMES: Final = (
    "redis", "valkey", "postgres", "sqlite", "folder-log", "folder-tasks", "s3-log", "s3-tasks",
    "restored",
)  # fmt: skip


def send_all(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue  # a session that has ended meanwhile
