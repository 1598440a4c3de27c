"""The backends on servers, for tests that run over all: a queue of its own for each folder."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
import redis
from msgspec.structs import replace
from psycopg import sql

from penstock.engines.records.redis import store as redis_store
from penstock.kernel.events import Claimed
from penstock.wire.packed import unpack
from penstock.wire.task import decode_task, encode_task
from tests.pipeline.backends import SINGLE, SQLITE, TASKS, Backend, Stored
from tests.records.postgres_stores import OnTestClock
from tests.records.redis_stores import TimedRedis, forget_commit, stored_commits
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

IN_FOLDERS = {kind.name: kind for kind in (SINGLE, SQLITE, TASKS)}
ALL_BUT_LOG = (*IN_FOLDERS, "redis", "postgres")


def backend_of(request: pytest.FixtureRequest, name: str) -> Backend:
    """The one of this name; a server is started for it if need be."""
    if name in IN_FOLDERS:
        return IN_FOLDERS[name]
    if name == "redis":
        server: Redis = request.getfixturevalue("redis_server")
        # Histories are of long ago, and events would leave with the first commit of today.
        request.getfixturevalue("monkeypatch").setattr(redis_store, "EVENTS_SECONDS", 1e9)
        return on_redis(server.url)
    database: Postgres = request.getfixturevalue("postgres_server")
    return on_postgres(database.new_database())


def on_redis(server: str) -> Backend:
    def stored(folder: Path) -> Iterator[Stored]:
        root = f"{{{_name(folder)}}}/"
        with redis.Redis.from_url(server) as client:
            yield from (_commit(*one) for one in stored_commits(client, root))

    return Backend(
        "redis",
        lambda folder: f"{server}?prefix={_name(folder)}",
        stored,
        timed=lambda folder, services, stamps: TimedRedis(
            server, _name(folder), services, services.clock, stamps
        ),
    )


def on_postgres(database: str) -> Backend:
    def stored(folder: Path) -> Iterator[Stored]:
        asked = sql.SQL("SELECT number, events FROM {}.commits ORDER BY number")
        with psycopg.connect(database) as connection:
            rows = connection.execute(asked.format(sql.Identifier(_name(folder)))).fetchall()
        for number, data in rows:
            yield _commit(number, data)

    return Backend(
        "postgres",
        lambda folder: f"{database}?schema={_name(folder)}",
        stored,
        timed=lambda folder, services, stamps: OnTestClock(
            database, _name(folder), services.clock, services, stamps
        ),
    )


def forget_the_claim(kind: Backend, folder: Path) -> None:
    """Takes the second of three commits out of a queue: one job enqueued, claimed, completed."""
    url = kind.url(folder).partition("?")[0]
    if kind is SQLITE:
        with closing(sqlite3.connect(folder / "queue.db")) as database, database:
            database.execute("DELETE FROM penstock_commits WHERE number = 2")
    elif kind is TASKS:
        [path] = folder.glob("tasks/*/*.json")
        task = decode_task(path.name, path.read_bytes())
        events = tuple(event for event in task.events if not isinstance(event, Claimed))
        path.write_bytes(encode_task(replace(task, events=events)))
    elif kind.name == "redis":
        with redis.Redis.from_url(url) as client:
            forget_commit(client, f"{{{_name(folder)}}}/", 1)
    else:
        gone = sql.SQL("DELETE FROM {}.commits WHERE number = 2")
        with psycopg.connect(url) as connection:
            connection.execute(gone.format(sql.Identifier(_name(folder))))


def _commit(number: int, data: bytes) -> Stored:
    _, *lines = unpack(f"commit {number}", data).split(b"\n")
    return number, [json.loads(line) for line in filter(None, lines)], None


def _name(folder: Path) -> str:
    return f"queue_{sha256(bytes(folder)).hexdigest()[:16]}"
