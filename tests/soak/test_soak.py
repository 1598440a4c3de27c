"""A short soak, so that the long one works when somebody asks for it."""

from __future__ import annotations

import asyncio

import pytest

from tests.soak.proxy import proxy_to
from tests.soak.run import soak

FAULTS = 8
"""Each kind that there is once or twice; between two of them some work is done."""


@pytest.mark.slow
async def test_a_redis_that_is_killed_frozen_filled_and_cut_off_keeps_every_promise() -> None:
    report = await soak("redis", faults=FAULTS, seed=1)
    assert report.broken == [], report.verdict
    assert report.faults.total() == FAULTS
    assert report.faults["server killed"] >= 1
    assert report.jobs > 0
    assert "all kept" in report.verdict


async def test_a_proxy_cuts_and_holds_up_what_goes_through_it() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, proxy_to(server.sockets[0].getsockname()[1]) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        proxy.hold()
        writer.write(b"two")
        answer = asyncio.create_task(reader.readexactly(3))
        await asyncio.sleep(0)
        assert not answer.done()
        proxy.let_go()
        assert await answer == b"two"
        proxy.cut()
        assert await reader.read() == b""
        writer.close()
