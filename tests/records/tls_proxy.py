"""TLS in front of a server that has none: what comes is decrypted and passed on.

Its certificate is for 127.0.0.1, signed by itself and worth nothing anywhere else.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("tls") / "certificate.pem"
KEY = CERTIFICATE.with_name("key.pem")
CHUNK_BYTES = 65_536


@asynccontextmanager
async def tls_proxy(port: int, *, asks_for_certificate: bool = False) -> AsyncIterator[int]:
    """The port at which it speaks TLS for the one at which nobody does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        answers, questions = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, questions), _pass_on(answers, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    # Either side may leave without a word.
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
