"""Telling whoever runs containers how a worker is: two answers over plain HTTP.

`/live` says that the event loop turns, since otherwise nobody would answer; `/ready` says whether
the worker claims jobs now: it has started, does not drain, and its store answers. There is nothing
else to see here, so it is served on loopback unless told otherwise, and needs no HTTP library.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from penstock.errors import InvalidInput
from penstock.worker.worker import Worker

LOOPBACK: Final = "127.0.0.1"
REQUEST_SECONDS_MAX: Final = 5.0
REQUEST_BYTES_MAX: Final = 8_192
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Unavailable"}


@asynccontextmanager
async def serve_health(worker: Worker, port: int, host: str = LOOPBACK) -> AsyncIterator[int]:
    """Answers for as long as the block runs; gives the port, which is a free one for 0."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(worker, request))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Whoever asks like that gets no answer, and harms nobody.
            return
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"health can't be told at {host}:{port}: {error}") from error
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def _answer(worker: Worker, request: bytes) -> bytes:
    method, _, rest = request.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method not in (b"GET", b"HEAD"):
        return _response(405, {"error": "GET /live or /ready"})
    facts = {"worker": worker.name, "busy": worker.left_behind}
    if path == b"/live":
        return _response(200, {"live": True, **facts})
    if path == b"/ready":
        why_not = worker.why_not_ready
        words = {} if why_not is None else {"reason": why_not}
        return _response(200 if why_not is None else 503, {"ready": not words, **facts, **words})
    return _response(404, {"error": "there are /live and /ready"})


def _response(status: int, words: dict[str, object]) -> bytes:
    body = msgspec.json.encode(words) + b"\n"
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
