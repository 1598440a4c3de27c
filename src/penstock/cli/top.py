"""`penstock top`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from msgspec.structs import asdict
from rich.live import Live

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url, finite
from penstock.cli.output import out, print_json
from penstock.cli.top_frame import Frame, rendered
from penstock.client.queue import Queue
from penstock.insights.rates import Looks
from penstock.insights.records import worker_record
from penstock.ports.backend import WorkerRecord
from penstock.runtime.services import Services

WORKERS_SECONDS: Final = 5.0
"""Registrations are one object each, so they are looked at less often than the counts."""


def command(
    interval: Annotated[
        float,
        typer.Option(
            "--interval", "-i", min=0.1, callback=finite, help="Seconds between two looks."
        ),
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show one frame and end.")] = False,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Ends with q or ctrl-c. Rates are over the time since the look before."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        run(_top(interval, once, url, tenant, json))


async def _top(
    interval: float, once: bool, url: str | None, tenant: str | None, json: bool
) -> None:
    async with opened(url, tenant) as queue:
        watcher = Watcher(queue)
        if once or json:
            await _print_frames(watcher, interval, once, json)
        else:
            await _live(watcher, interval)


class Watcher:
    """Looks at the queue and makes frames of what it sees."""

    def __init__(self, queue: Queue) -> None:
        self.clock = Services().clock
        self._queue = queue
        self._looks = Looks()
        self._workers: list[WorkerRecord] = []
        self._workers_at = float("-inf")

    async def frame(self) -> Frame:
        now = self.clock.elapsed()
        if now - self._workers_at >= WORKERS_SECONDS:
            self._workers, self._workers_at = await self._queue.workers(), now
        view = self._looks.add(await self._queue.stats())
        return Frame(self._queue.capabilities.backend, self._queue.tenant, view, self._workers)


async def _print_frames(watcher: Watcher, interval: float, once: bool, json: bool) -> None:
    # Rates need two looks, so the first one is not shown.
    await watcher.frame()
    while True:
        await watcher.clock.sleep(interval)
        frame = await watcher.frame()
        if json:
            workers = [worker_record(worker) for worker in frame.workers]
            alone = [asdict(one) for one in frame.unserved]
            print_json({**frame.view.record(), "workers": workers, "unserved": alone})
        else:
            out().print(rendered(frame, is_live=False))
        if once:
            return


async def _live(watcher: Watcher, interval: float) -> None:
    ended = asyncio.Event()
    console = out()
    frame = await watcher.frame()
    with (
        _keys(lambda key: ended.set() if key in ("q", "Q", "\x03") else None),
        _interrupts(ended.set),
        Live(rendered(frame), console=console, screen=True, auto_refresh=False) as live,
    ):
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await ended.wait()
            live.update(rendered(await watcher.frame()), refresh=True)


@contextmanager
def _interrupts(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextmanager
def _keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Tells of single keys while it lasts, where there is a terminal to press them on."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, lambda: pressed(sys.stdin.read(1)))
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
