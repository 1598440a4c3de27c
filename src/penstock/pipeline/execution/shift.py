"""One worker inside one Spark task: from the task's start to its end, or to its cancellation.

Spark runs a task's Python in a process of its own and tells it nothing of a cancellation. It
closes the connection through which rows are returned, and only who writes to it finds out. So the
shift returns a row of padding every second, as large as the buffer in between; the first that
can't be delivered ends the generator, and with it the worker, which drains. If the executor goes,
its processes get SIGHUP, which Spark has them ignore; here it drains too. If the process is
killed, its leases run out, as those of any worker.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import asdict
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.app.app import App
from penstock.app.loading import load_app
from penstock.runtime.loops import LoopThread
from penstock.worker.options import Counters, WorkerOptions
from penstock.worker.worker import Worker

PULSE_SECONDS: Final = 1.0
BUFFER_BYTES: Final = 64 * 1024
"""Of Spark's buffer between Python and the JVM, unless its environment says otherwise."""

_COLUMNS: Final[dict[str, DataType]] = {
    "worker": StringType(),
    "host": StringType(),
    "task": IntegerType(),
    **dict.fromkeys(Counters.__struct_fields__, LongType()),
    "padding": BinaryType(),
}
REPORT: Final = StructType([StructField(name, type) for name, type in _COLUMNS.items()])
"""One row per worker; those without one are padding."""


class Shift(Struct, frozen=True, kw_only=True):
    """What every task of a run is told."""

    run: str
    """The beginning of all its workers' names."""
    place: str
    url: str
    tenant: str | None
    options: dict[str, Any]
    """Of the worker; what is not said is decided where it runs, such as the number of cores."""
    seconds: float | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from self._work(task)

    def located_app(self) -> App:
        app = load_app(self.place)
        app.relocate(self.url)
        if self.tenant is not None:
            app.relocate(tenant=self.tenant)
        return app

    def _work(self, task: int) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        options = WorkerOptions(name=f"{self.run}-{task}.{attempt}", **self.options)
        app = self.located_app()
        worker = Worker(app, options)
        thread = LoopThread("penstock-spark")
        working = asyncio.run_coroutine_threadsafe(_worked(app, worker, self.seconds), thread.loop)

        def stop() -> None:
            thread.loop.call_soon_threadsafe(worker.stop)

        try:
            with _told_to_stop(stop):
                yield from _pulses(working)
        finally:
            # Also when nobody takes the rows any more: the task was cancelled.
            if not working.done():
                stop()
            working.result()
            thread.stop()
        yield _row(worker=worker.name, host=socket.gethostname(), task=task, **_counts(worker))


async def _worked(app: App, worker: Worker, seconds: float | None) -> None:
    timer = None
    if seconds is not None:
        timer = asyncio.get_running_loop().call_later(seconds, worker.stop)
    try:
        await worker.run()
    finally:
        if timer is not None:
            timer.cancel()
        await app.close()


def _pulses(working: Future[None]) -> Iterator[pa.RecordBatch]:
    padding = b"\0" * int(os.environ.get("SPARK_BUFFER_SIZE", BUFFER_BYTES))
    while wait([working], PULSE_SECONDS).not_done:
        yield _row(padding=padding)


def _row(**values: Any) -> pa.RecordBatch:
    row = {name: values.get(name) for name in _COLUMNS}
    return pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(REPORT))


def _counts(worker: Worker) -> dict[str, int]:
    counts: dict[str, int] = asdict(worker.counters)
    return counts


@contextmanager
def _told_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """SIGHUP and SIGTERM drain; children's ends are told, which tasks with `cpu=True` need."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        signal.SIGHUP: signal.signal(signal.SIGHUP, lambda *_: stop()),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: stop()),
        signal.SIGCHLD: signal.signal(signal.SIGCHLD, signal.SIG_DFL),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
