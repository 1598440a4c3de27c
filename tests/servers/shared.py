"""One server for all the test processes of a run, started by the first that asks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

START_SECONDS_MAX = 180
STARTS_MAX = 3
KEEPER = Path(__file__).with_name("keeper.py")

Facts = dict[str, int]


class ServerAbsent(Exception):
    """The server can't be started; the message says what to do."""


@dataclass(frozen=True)
class Recipe:
    """How to start a server: its ports by name, its command and environment, and when it is up."""

    name: str
    ports: Sequence[str]
    # Some servers take a second port at a fixed distance from each that they are told.
    port_distance: int
    command: Callable[[Path, Facts], list[str]]
    environment: dict[str, str]
    is_up: Callable[[Facts], bool]
    settle_seconds: float = 0.0
    stop_signal: signal.Signals = signal.SIGKILL


@contextlib.contextmanager
def shared_server(recipe: Recipe, folder: Path) -> Iterator[Facts]:
    """The ports of the running server, which lives until the last such context has ended."""
    wanted_path = folder / f"{recipe.name}.wanted"
    facts_path = folder / f"{recipe.name}.json"
    wanted_path.touch()
    with wanted_path.open("r+") as wanted, (folder / f"{recipe.name}.starting").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(wanted, fcntl.LOCK_SH)
        if not facts_path.exists():
            facts = _start(recipe, folder, wanted_path, facts_path)
            facts_path.write_text(json.dumps(facts))
        facts = json.loads(facts_path.read_text())
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield facts


def _start(recipe: Recipe, folder: Path, wanted: Path, facts_path: Path) -> Facts:
    log = folder / f"{recipe.name}.log"
    for _ in range(STARTS_MAX):
        # Not in that folder: a server that runs as another user could not get there.
        data = Path(tempfile.mkdtemp(prefix=f"penstock-{recipe.name}-"))
        facts = _free_ports(recipe)
        command = [sys.executable, str(KEEPER), str(wanted), str(facts_path), str(data)]
        command.append(str(recipe.stop_signal.value))
        keeper = os.posix_spawn(
            sys.executable,
            [*command, *recipe.command(data, facts)],
            {**os.environ, **recipe.environment},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        if is_up_in_time(partial(_runs, keeper), partial(recipe.is_up, facts)):
            time.sleep(recipe.settle_seconds)
            return facts
        shutil.rmtree(data, ignore_errors=True)
    raise ServerAbsent(f"{recipe.name} did not come up: {log.read_text()[-2000:]}")


def answers(url: str) -> bool:
    """Whether somebody speaks HTTP there, were it to refuse."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return False
    return True


def _runs(keeper: int) -> bool:
    return os.waitpid(keeper, os.WNOHANG) == (0, 0)


def is_up_in_time(runs: Callable[[], bool], is_up: Callable[[], bool]) -> bool:
    """Whether a process that was started answers, before it ends or takes too long.

    The one place where anything waits by the clock: somebody else's server tells nobody.
    """
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < give_up_at:
        if not runs():
            return False
        if is_up():
            return True
        time.sleep(0.05)
    return False


def free_port(distance: int = 0) -> int:
    """One that nobody has just now, and another at that distance."""
    with contextlib.ExitStack() as held:
        return _hold_free_port(held, distance)


def _free_ports(recipe: Recipe) -> Facts:
    """Another program may take one meanwhile: then the server ends, and it is tried again."""
    facts: Facts = {}
    with contextlib.ExitStack() as held:
        for name in recipe.ports:
            facts[name] = _hold_free_port(held, recipe.port_distance)
    return facts


def _hold_free_port(held: contextlib.ExitStack, distance: int) -> int:
    while True:
        first = held.enter_context(socket.socket())
        first.bind(("127.0.0.1", 0))
        port: int = first.getsockname()[1]
        if not distance:
            return port
        second = held.enter_context(socket.socket())
        with contextlib.suppress(OSError, OverflowError):
            second.bind(("127.0.0.1", port - distance))
            return port - distance
