"""`penstock.spark.run`: an app's workers as the tasks of one Spark job."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.address import Address, parse
from penstock.app.app import App
from penstock.app.loading import load_app
from penstock.errors import InvalidInput
from penstock.pipeline.execution.shift import REPORT, Shift
from penstock.pipeline.mapping import mapped
from penstock.pipeline.session import joined
from penstock.ports.clock import Clock
from penstock.runtime.identity import random_id
from penstock.runtime.loops import run_apart
from penstock.runtime.services import Services
from penstock.runtime.tasks import within
from penstock.wiring import open as penstock_open
from penstock.worker.options import Counters, WorkerOptions
from penstock.worker.serving import waiting_by_type

logger = logging.getLogger(__name__)

DIRECT_WRITERS_MAX: Final = 8
"""So many processes share one log well; more of them mostly get in each other's way."""
STOP_SECONDS_MAX: Final = 10.0
"""How long cancelled workers may take to end, on top of their grace."""
POLL_SECONDS: Final = 0.2
_LEDGERS: Final = ("file", "s3", "gs", "az")
_MANY: Final = 1_000_000


class WorkerReport(Struct, frozen=True):
    """What one worker has done. Of a task that was killed and started again, the last one."""

    worker: str
    host: str
    task: int
    counters: Counters


class RunReport(Struct, frozen=True):
    workers: list[WorkerReport]
    left: dict[str, int] = {}
    """After a burst: how many jobs of each type wait on, not due yet or unknown to the app."""

    @property
    def total(self) -> Counters:
        return Counters(
            *(
                sum(getattr(each.counters, name) for each in self.workers)
                for name in Counters.__struct_fields__
            )
        )


def run(
    app: App | str,
    url: str | None = None,
    *,
    spark: SparkSession | None = None,
    tasks: int | None = None,
    tenant: str | None = None,
    seconds: float | None = None,
    py_files: Sequence[str] = (),
    **options: Any,
) -> RunReport:
    """Runs an app's workers inside Spark tasks until they end or the job is cancelled.

    The app is one that executors can import: an object at the top of a module, or `"module:app"`.
    `py_files` are sent to them first. The options are those of a worker; with `burst=True` it ends
    when nothing that the app has tasks for is due and reports what it `left`, with `seconds` after
    so long. `tasks` is how many workers there are at most: those that find no free slot start when
    there is one. An interrupt lets the workers drain; an executor that is lost loses nothing, its
    leases run out.
    """
    WorkerOptions(**options)
    place = app if isinstance(app, str) else place_of(app)
    address = parse(url or load_app(place).url, {})
    if address.scheme == "memory":
        raise InvalidInput("memory:// is inside one process: executors can't reach it")
    shift = Shift(
        run=f"spark-{random_id()[:8]}",
        place=place,
        url=address.absolute_url,
        tenant=tenant,
        options=options,
        seconds=seconds,
    )
    spark = joined(spark)
    if py_files:
        # Spark's JVM may have been started in another folder than this process is in now.
        files = (each if "://" in each else str(Path(each).absolute()) for each in py_files)
        spark.addArtifacts(*files, pyfile=True)
    count = _tasks(spark, tasks, address)
    rows = mapped(spark.range(0, count, 1, count), shift, REPORT).where("worker is not null")
    with _interruptible(spark, shift):
        found = [row.asDict() for row in rows.drop("padding").collect()]
    reports = [_reported(row) for row in sorted(found, key=lambda row: row["task"])]
    return RunReport(reports, run_apart(_left(shift)) if options.get("burst") else {})


def place_of(app: App) -> str:
    """The name by which executors import it: `"module:app"`."""
    for module_name, module in list(sys.modules.items()):
        for name, value in list(vars(module).items()):
            if value is app and module_name != "__main__":
                return f"{module_name}:{name}"
    raise InvalidInput(
        "executors import the app by its name, and this one is in no module that they can import: "
        'put it at the top of one, not in the program itself, and pass it or "module:app"'
    )


def _tasks(spark: SparkSession, asked: int | None, address: Address) -> int:
    if asked is not None and asked < 1:
        raise InvalidInput(f"tasks={asked}: it takes at least 1")
    shares_a_log = address.scheme in _LEDGERS
    if asked is None:
        slots = _slots(spark)
        return min(slots, DIRECT_WRITERS_MAX) if shares_a_log else slots
    if shares_a_log and asked > DIRECT_WRITERS_MAX:
        logger.warning(
            "%d tasks write one log, more than %d get in each other's way: "
            "rather raise the concurrency of each",
            asked,
            DIRECT_WRITERS_MAX,
        )
    return asked


def _slots(spark: SparkSession) -> int:
    """How many tasks the cluster runs at once: the partitions that Spark itself would make."""
    return spark.range(_MANY).select(sf.spark_partition_id()).distinct().count()


@contextmanager
def _interruptible(spark: SparkSession, shift: Shift) -> Iterator[None]:
    """Whatever ends the wait for the tasks ends them too, and lets them drain."""
    spark.addTag(shift.run)
    if hasattr(spark, "_jsc"):
        # Without, a cancelled task is killed before it can drain; a Connect server does it itself.
        spark.sparkContext.setInterruptOnCancel(True)
    try:
        yield
    except BaseException:
        spark.interruptTag(shift.run)
        run_apart(_drained(shift, Services().clock))
        raise
    finally:
        spark.removeTag(shift.run)


async def _drained(shift: Shift, clock: Clock) -> None:
    """Until no worker of the run is registered any more, within the grace that they have."""
    limit = WorkerOptions(**shift.options).grace_seconds + STOP_SECONDS_MAX
    async with penstock_open(shift.url) as queue:

        async def gone() -> None:
            while any(worker.id.startswith(shift.run) for worker in await queue.workers()):
                await clock.sleep(POLL_SECONDS)

        if not await within(limit, clock, gone()):
            logger.warning("some workers of %s did not end; their leases run out", shift.run)


async def _left(shift: Shift) -> dict[str, int]:
    url, tenant = shift.url, shift.tenant
    opening = penstock_open(url) if tenant is None else penstock_open(url, tenant=tenant)
    async with opening as queue:
        return waiting_by_type(await queue.stats(), shift.options.get("queues"))


def _reported(row: dict[str, Any]) -> WorkerReport:
    counters = Counters(*(row[name] for name in Counters.__struct_fields__))
    return WorkerReport(row["worker"], row["host"], row["task"], counters)
