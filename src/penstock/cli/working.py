"""Running a worker from its first line to its last: banner, signals, summary."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import asdict
from rich.table import Table

import penstock
from penstock.app.app import App
from penstock.cli.output import out, print_json, say, text
from penstock.worker.options import AUTO, WorkerOptions
from penstock.worker.worker import Worker

logger = logging.getLogger("penstock.cli")


async def work(place: str, app: App, options: WorkerOptions, *, json: bool) -> None:
    queue = await app.queue()
    worker = Worker(app, options)
    facts = {
        "version": penstock.__version__,
        "app": place,
        "tasks": sorted(app.tasks),
        "queue": queue.capabilities.backend,
        "tenant": queue.tenant,
        "worker": worker.name,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "queues": list(options.queues) if options.queues else None,
        "concurrency": options.concurrency,
        "concurrency_min": options.bounds.floor,
        "concurrency_max": options.bounds.ceiling,
        "lease_seconds": options.lease_seconds,
        "grace_seconds": options.grace_seconds,
        "burst": options.burst,
        "monitor": options.monitor,
    }
    try:
        # Heard from the first word on: whoever has read that it runs may send one.
        with _signals(worker, options):
            print_json({"event": "started", **facts}) if json else _banner(facts)
            # What was imported stays to the end; to look through it again and again for garbage
            # cost a twentieth of a busy worker's time.
            gc.collect()
            gc.freeze()
            await worker.run()
    finally:
        await app.close()
    counters = asdict(worker.counters)
    if json:
        print_json({"event": "stopped", **counters})
    else:
        say(
            "stopped: "
            + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counters.items())
        )
    if worker.left_behind:
        # Their jobs were given back; Python would wait for their threads for ever.
        logger.warning("%d handlers would not stop and end here", worker.left_behind)
        sys.stdout.flush()
        os._exit(0)


@contextmanager
def _signals(worker: Worker, options: WorkerOptions) -> Iterator[None]:
    """The first signal drains, each further one gives everything back at once."""
    loop = asyncio.get_running_loop()
    heard = False

    def stop() -> None:
        nonlocal heard
        if heard:
            logger.warning("giving back %d jobs at once", len(worker.running))
        else:
            logger.info(
                "draining: %d jobs have %g s to finish; once more to give them back at once",
                len(worker.running),
                options.grace_seconds,
            )
        heard = True
        worker.stop()

    wanted = (signal.SIGTERM, signal.SIGINT)
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
        "tasks": ", ".join(facts["tasks"]) or "none",
        "store": f"{facts['queue']}, tenant {facts['tenant']}",
        "queues": ", ".join(facts["queues"]) if facts["queues"] else "all",
        "runs": f"{_at_once(facts)} at once, leases of {facts['lease_seconds']:g} s, "
        f"{facts['grace_seconds']:g} s of grace",
        "ends": "when nothing is due" if facts["burst"] else "with ctrl-c or SIGTERM",
    }
    for name, value in shown.items():
        rows.add_row(name, text(value))
    console = out()
    console.print(rows)
    console.file.flush()


def _at_once(facts: dict[str, Any]) -> str:
    if facts["concurrency"] == AUTO:
        return f"{facts['concurrency_min']} to {facts['concurrency_max']}, as it finds best,"
    return str(facts["concurrency"])
