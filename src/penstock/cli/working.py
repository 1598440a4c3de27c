"""Running a worker from its first line to its last: banner, signals, summary."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from msgspec.structs import asdict
from rich.table import Table

import penstock
from penstock.app.app import App
from penstock.cli.left_waiting import find_left
from penstock.cli.output import out, print_json, say, text
from penstock.client.queue import Queue
from penstock.insights.wording import counted
from penstock.worker.health import serve_health
from penstock.worker.options import AUTO, WorkerOptions
from penstock.worker.serving import served_types
from penstock.worker.worker import Worker

logger = logging.getLogger("penstock.cli")


async def work(
    place: str,
    app: App,
    options: WorkerOptions,
    health: tuple[str, int] | None = None,
    *,
    json: bool,
) -> None:
    types = served_types(app, options)
    queue = await app.queue()
    worker = Worker(app, options)
    facts = _facts(place, app, queue, worker, types)
    try:
        # Heard from the first word on: whoever has read that it runs may send one.
        with _signals(worker, options):
            async with _health(worker, health) as facts["health"]:
                print_json({"event": "started", **facts}) if json else _banner(facts)
                # What was imported stays to the end; to look through it again and again for
                # garbage cost a twentieth of a busy worker's time.
                gc.collect()
                gc.freeze()
                await worker.run()
        left = await find_left(queue, options, app.tasks, types) if options.burst else None
    finally:
        await app.close()
    counters = asdict(worker.counters)
    if json:
        over = {} if left is None else left.record()
        print_json({"event": "stopped", **counters, **over})
    else:
        if left is not None:
            left.say()
        say(
            "stopped: "
            + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counters.items())
        )
    if worker.wants_restart:
        logger.warning("starting again, in place of this process")
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "penstock", *sys.argv[1:]])
    if worker.left_behind:
        # Their jobs were given back; Python would wait for their threads for ever.
        left_behind = counted(worker.left_behind, "handler")
        logger.warning("%s would not stop: ended with the process", left_behind)
        sys.stdout.flush()
        os._exit(0)


def _facts(
    place: str, app: App, queue: Queue, worker: Worker, types: Iterable[str] | None
) -> dict[str, Any]:
    """What it says of itself when it starts."""
    options = worker.options
    return {
        "version": penstock.__version__,
        "app": place,
        "tasks": sorted(app.tasks),
        "queue": queue.capabilities.backend,
        "tenant": queue.tenant,
        "worker": worker.name,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "queues": list(options.queues) if options.queues else None,
        "types": None if types is None else sorted(types),
        "concurrency": options.concurrency,
        "concurrency_min": options.bounds.floor,
        "concurrency_max": options.bounds.ceiling,
        "lease_seconds": options.lease_seconds,
        "grace_seconds": options.grace_seconds,
        "burst": options.burst,
        "monitor": options.monitor,
    }


@asynccontextmanager
async def _health(worker: Worker, place: tuple[str, int] | None) -> AsyncIterator[str | None]:
    """Where it is told, if it is."""
    if place is None:
        yield None
        return
    host, port = place
    async with serve_health(worker, port, host) as bound:
        yield f"{host}:{bound}"


@contextmanager
def _signals(worker: Worker, options: WorkerOptions) -> Iterator[None]:
    """The first signal drains, each further one gives everything back at once."""
    loop = asyncio.get_running_loop()
    heard = False

    def stop() -> None:
        nonlocal heard
        if heard:
            logger.warning("giving back %s at once", counted(len(worker.running), "job"))
        else:
            logger.info(
                "draining: %s may finish within %g s; once more to give back at once",
                counted(len(worker.running), "job"),
                options.grace_seconds,
            )
        heard = True
        worker.stop()

    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in wanted:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in wanted:
            loop.remove_signal_handler(number)


def _banner(facts: dict[str, Any]) -> None:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(overflow="fold")
    shown = {
        "penstock": f"{facts['version']}, worker {facts['worker']}",
        "app": facts["app"],
        "tasks": ", ".join(facts["tasks"]),
        "serves": _serves(facts),
        "store": f"{facts['queue']}, tenant {facts['tenant']}",
        "queues": ", ".join(facts["queues"]) if facts["queues"] else "all",
        "runs": f"{_at_once(facts)} at once, leases of {facts['lease_seconds']:g} s, "
        f"{facts['grace_seconds']:g} s of grace",
        "ends": "when nothing of these is due" if facts["burst"] else "with ctrl-c or SIGTERM",
    }
    if facts["health"] is not None:
        shown["health"] = f"http://{facts['health']}/live and /ready"
    for name, value in shown.items():
        rows.add_row(name, text(value))
    console = out()
    console.print(rows)
    console.file.flush()


def _serves(facts: dict[str, Any]) -> str:
    if facts["types"] is None:
        return "jobs of any type; those without a task fail"
    return "these" if facts["types"] == facts["tasks"] else ", ".join(facts["types"])


def _at_once(facts: dict[str, Any]) -> str:
    if facts["concurrency"] == AUTO:
        return f"{facts['concurrency_min']} to {facts['concurrency_max']}, as it finds best,"
    return str(facts["concurrency"])
