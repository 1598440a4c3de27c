"""A double of a pooler in transaction mode: every transaction gets the session that waits longest.

So what one leaves behind in its session, such as a setting, a prepared statement or a LISTEN, is
gone for the next and found by somebody else. Like the real ones it tells clients numbers of
sessions that it made up. Whoever prepares by name, or listens, is cut off and noted.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from psycopg.conninfo import conninfo_to_dict

SESSIONS = 3
_ENCRYPTION = (80877103, 80877104)
"""Codes of clients that ask for it first."""
_ENDS_EXCHANGE = (b"S", b"Q")


class _Session:
    def __init__(self, reader: StreamReader, writer: StreamWriter, parameters: list[bytes]) -> None:
        self.reader = reader
        self.writer = writer
        self.parameters = parameters


class Pooler:
    def __init__(self, host: str, port: int) -> None:
        self.offences: list[bytes] = []
        self._place = (host, port)
        self._idle: asyncio.Queue[_Session] = asyncio.Queue()
        self._open: list[StreamWriter] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._made = 0
        self._made_up = 1_000_000_000

    def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._open.append(writer)
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for writer in self._open:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            startup = await _startup(reader, writer)
            session = await self.take(startup)
            self._idle.put_nowait(session)
            self._made_up += 1
            told = b"K" + (12).to_bytes(4, "big") + self._made_up.to_bytes(4, "big") + b"mine"
            ready = b"Z" + (5).to_bytes(4, "big") + b"I"
            okay = b"R" + (8).to_bytes(4, "big") + (0).to_bytes(4, "big")
            writer.write(b"".join([okay, *session.parameters, told, ready]))
            await _Client(self, startup, reader, writer).serve()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def take(self, startup: bytes) -> _Session:
        if self._made >= SESSIONS:
            return await self._idle.get()
        self._made += 1
        reader, writer = await asyncio.open_connection(*self._place)
        self._open.append(writer)
        writer.write(startup)
        parameters = []
        while (message := await _message(reader))[:1] != b"Z":
            if message[:1] == b"S":
                parameters.append(message)
        return _Session(reader, writer, parameters)

    def give_back(self, session: _Session) -> None:
        self._idle.put_nowait(session)


class _Client:
    def __init__(
        self, pooler: Pooler, startup: bytes, reader: StreamReader, writer: StreamWriter
    ) -> None:
        self._pooler = pooler
        self._startup = startup
        self._reader = reader
        self._writer = writer
        self._session: _Session | None = None
        self._unanswered = 0
        self._answering: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        try:
            await self._forward()
        finally:
            if self._answering is not None:
                self._answering.cancel()

    async def _forward(self) -> None:
        while (message := await _message(self._reader))[:1] != b"X":
            is_named = message[:1] == b"P" and message[5:6] != b"\0"
            if is_named or b"LISTEN" in message:
                self._pooler.offences.append(message)
                return
            if self._session is None:
                self._session = await self._pooler.take(self._startup)
                self._answering = asyncio.create_task(self._answer(self._session))
            self._unanswered += message[:1] in _ENDS_EXCHANGE
            self._session.writer.write(message)

    async def _answer(self, session: _Session) -> None:
        while True:
            message = await _message(session.reader)
            self._writer.write(message)
            if message[:1] == b"Z":
                self._unanswered -= 1
                if message[5:] == b"I" and not self._unanswered:
                    self._session = None
                    self._pooler.give_back(session)
                    return


async def _startup(reader: StreamReader, writer: StreamWriter) -> bytes:
    while True:
        head = await reader.readexactly(8)
        if int.from_bytes(head[4:], "big") not in _ENCRYPTION:
            return head + await reader.readexactly(int.from_bytes(head[:4], "big") - 8)
        writer.write(b"N")


async def _message(reader: StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


@asynccontextmanager
async def pooling(url: str) -> AsyncIterator[tuple[str, Pooler]]:
    there = conninfo_to_dict(url)
    pooler = Pooler(str(there["host"]), int(str(there["port"])))
    server = await asyncio.start_server(pooler.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://{there['user']}@127.0.0.1:{port}/{there['dbname']}", pooler
    finally:
        server.close()
        await pooler.close()
