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

from penstock.cli import worker_options as said
from penstock.cli.logs import Level, start_logging
from penstock.cli.opening import opened, run
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url, refuse_unused
from penstock.cli.output import print_json, say
from penstock.maintenance.monitor import Monitor, MonitorOptions
from penstock.runtime.tasks import TaskSet

logger = logging.getLogger("penstock.cli")


def command(
    context: typer.Context,
    url: UrlArgument = None,
    at: PlainUrl = None,
    once: Annotated[bool, typer.Option("--once", help="One round, then end.")] = False,
    monitor_round: said.MonitorRound = said.ROUND_SECONDS,
    monitor_repair: said.MonitorRepair = said.REPAIR_SECONDS,
    monitor_vacuum: said.MonitorVacuum = said.VACUUM_SECONDS,
    monitor_forget: said.MonitorForget = said.FORGET_SECONDS,
    log_level: said.LogLevel = Level.INFO,
    json: Json = False,
) -> None:
    """Workers do this too, one of them at a time; it is for queues whose workers come and go."""
    start_logging(as_json=json, level=log_level.value)
    options = said.monitoring(monitor_round, monitor_repair, monitor_vacuum, monitor_forget)
    if once:
        refuse_unused(context, "with --once", "monitor_repair", "monitor_vacuum")
        led = run(_once(one_url(context, url, at), options))
        words = "did one round" if led else "another monitor leads; there was nothing to do"
        print_json({"led": led}) if json else say(words)
    else:
        run(_monitor(one_url(context, url, at), options, json))


async def _once(url: str | None, options: MonitorOptions) -> bool:
    async with opened(url, tells_of_server=True) as queue:
        monitor = Monitor(queue, _name(), options=options)
        led = await monitor.round()
        await monitor.resign()
        return led


async def _monitor(url: str | None, options: MonitorOptions, json: bool) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    async with opened(url, tells_of_server=True) as queue:
        where = queue.capabilities.backend
        print_json({"event": "started", "queue": where}) if json else say(f"monitoring {where}")
        tasks = TaskSet("monitor")
        rounds = tasks.start("rounds", Monitor(queue, _name(), options=options).run())
        ended = tasks.start("end", stopping.wait())
        await asyncio.wait({rounds, ended}, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(asyncio.CancelledError):
            await tasks.stop()
    print_json({"event": "stopped"}) if json else say("stopped")


def _name() -> str:
    return f"monitor-{socket.gethostname()}-{os.getpid()}"
