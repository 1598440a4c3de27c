"""A server that is away, starting up or held up by a stopped process: how soon work goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

import penstock
from penstock.engines.records.postgres import database
from penstock.engines.records.postgres.errors import translated
from penstock.errors import PenstockError, StoreUnavailable
from penstock.testing.conformance.backend.steps import ids
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")

ROOT = Path(__file__).resolve().parents[2]
REFUSED = 40
"""How often a connection is refused before the server is back: most of a minute of tries."""
WAIT_SECONDS_MAX = 1.5
END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'penstock' AND datname = current_database()"
)


async def test_nobody_waits_long_between_two_tries_to_reach_the_server(
    postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that all go on as soon as it is back, however long it was away."""
    url = postgres_server.new_database()
    connect = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]
    refused: list[bool] = []
    waits: list[float] = []

    def refuse(cls: type[psycopg.Connection[Any]], *given: Any, **named: Any) -> Any:
        if len(refused) < REFUSED:
            refused.append(True)
            raise psycopg.OperationalError("connection refused")
        return connect(cls, *given, **named)

    async with penstock.open(url) as queue, asyncio.timeout(60):
        await queue.enqueue("work", id="before")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(END_SESSIONS)
        monkeypatch.setattr(database, "block", waits.append)
        monkeypatch.setattr(psycopg.Connection, "connect", classmethod(refuse))
        assert (await queue.enqueue("work", id="meanwhile")).status == "queued"
        assert [job.id for job in await queue.claim(5)] == ["before", "meanwhile"]
    assert len(refused) == REFUSED
    assert max(waits) <= WAIT_SECONDS_MAX


@dataclass(frozen=True)
class Starting:
    url: str
    refused: Event
    """Whether somebody was."""
    is_up: Event


@contextmanager
def starting_server(ready: str) -> Iterator[Starting]:
    """A server that says it is starting up, until it is told to pass on to the one at `ready`."""
    there = psycopg.conninfo.conninfo_to_dict(ready)
    refused, is_up = Event(), Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse(client: socket.socket) -> None:
        client.recv(4096)
        fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
        client.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
        client.close()
        refused.set()

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        target.close()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if not is_up.is_set():
                refuse(client)
                continue
            server = socket.create_connection((str(there["host"]), int(str(there["port"]))))
            for pair in ((client, server), (server, client)):
                Thread(target=copy, args=pair, daemon=True).start()

    thread = Thread(target=serve, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    url = f"postgresql://{there['user']}@127.0.0.1:{port}/{there['dbname']}?sslmode=disable"
    try:
        yield Starting(url, refused, is_up)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


async def test_open_waits_for_a_server_that_is_starting_up(postgres_server: Postgres) -> None:
    with starting_server(postgres_server.new_database()) as server:
        opening = asyncio.ensure_future(_enqueue_one(server.url))
        await asyncio.to_thread(server.refused.wait, 30)
        server.is_up.set()
        async with asyncio.timeout(60):
            assert await opening == "queued"


async def test_open_does_not_wait_for_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(30):
            await _enqueue_one(f"postgresql://postgres@127.0.0.1:{port}/postgres")


async def test_a_server_that_takes_no_writes_for_a_while_is_waited_out(
    postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a failover, while a name still leads to the one that was the master."""
    url = postgres_server.new_database()
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    refused, loop = asyncio.Event(), asyncio.get_running_loop()

    def note(place: str, error: psycopg.Error) -> PenstockError:
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            loop.call_soon_threadsafe(refused.set)
        return translated(place, error)

    monkeypatch.setattr(database, "translated", note)
    async with (
        penstock.open(url) as queue,
        asyncio.timeout(90),
        await psycopg.AsyncConnection.connect(url, autocommit=True) as admin,
    ):
        await queue.enqueue("work", id="before")
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await admin.execute(END_SESSIONS)
        meanwhile = asyncio.create_task(queue.enqueue("work", id="meanwhile"))
        await refused.wait()
        assert not meanwhile.done()
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        assert (await meanwhile).status == "queued"
        assert await ids(queue) == ["before", "meanwhile"]


async def _enqueue_one(url: str) -> str:
    async with penstock.open(url) as queue:
        return (await queue.enqueue("work")).status


@pytest.mark.parametrize("where", ["between", "midst"])
async def test_a_process_that_is_stopped_in_a_turn_lets_go(
    postgres_server: Postgres, where: str
) -> None:
    """Its number, too: whoever reads events does not wait for it. It starts again afterwards."""
    url = f"{postgres_server.new_database()}?schema={new_schema()}"
    command = [sys.executable, "-m", "tests.records.freezing", url, where]
    async with penstock.open(url) as queue, asyncio.timeout(90):
        stopped = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
        try:
            # Without WEXITED, so that its end is left to whoever waits for that.
            await asyncio.to_thread(os.waitid, os.P_PID, stopped.pid, os.WSTOPPED)
            assert (await queue.enqueue("work", id="other")).status == "queued"
            events = [event async for event in queue.events("beginning", follow=False)]
            assert [event.id for event in events] == ["other"]  # type: ignore[union-attr]
            stopped.send_signal(signal.SIGCONT)
            told, _ = await stopped.communicate()
        finally:
            if stopped.returncode is None:
                stopped.kill()
        assert told == b"queued\n"
        assert len(await queue.history("frozen")) == 1
