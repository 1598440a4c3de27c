"""`penstock monitor`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from typing import Annotated

import typer

from penstock.cli.logs import start_logging
from penstock.cli.opening import opened, run
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url
from penstock.cli.output import print_json, say
from penstock.maintenance.monitor import Monitor
from penstock.runtime.tasks import TaskSet

logger = logging.getLogger("penstock.cli")


def command(
    url: UrlArgument = None,
    at: PlainUrl = None,
    once: Annotated[bool, typer.Option("--once", help="One round, then end.")] = False,
    json: Json = False,
) -> None:
    """Workers do this too, one of them at a time; it is for queues whose workers come and go."""
    start_logging(json=json)
    if once:
        led = run(_once(one_url(url, at)))
        words = "did one round" if led else "another monitor leads; there was nothing to do"
        print_json({"led": led}) if json else say(words)
    else:
        run(_monitor(one_url(url, at), json))


async def _once(url: str | None) -> bool:
    async with opened(url) as queue:
        return await Monitor(queue, _name()).round()


async def _monitor(url: str | None, json: bool) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with opened(url) as queue:
        where = queue.capabilities.backend
        print_json({"event": "started", "queue": where}) if json else say(f"monitoring {where}")
        tasks = TaskSet("monitor")
        rounds = tasks.start("rounds", Monitor(queue, _name()).run())
        ended = tasks.start("end", stopping.wait())
        await asyncio.wait({rounds, ended}, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(asyncio.CancelledError):
            await tasks.stop()
    print_json({"event": "stopped"}) if json else say("stopped")


def _name() -> str:
    return f"monitor-{socket.gethostname()}-{os.getpid()}"
