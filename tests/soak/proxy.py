"""A proxy that can be told to cut what goes through it, or to hold it up."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

CHUNK_BYTES: Final = 65_536


class Proxy:
    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[StreamWriter] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self.port = 0

    def cut(self) -> None:
        """Without a word to either side, in the middle of whatever it was."""
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Nothing goes through from now on, and nobody is told."""
        self._is_open.clear()

    def let_go(self) -> None:
        self._is_open.set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._is_open.wait()
            answers, questions = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            # As if nobody listened at this port, which is true of the one behind it.
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(questions)
        try:
            await asyncio.gather(self._pass_on(reader, questions), self._pass_on(answers, writer))
        finally:
            self._writers -= {writer, questions}

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                await self._is_open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.let_go()
        proxy.cut()
