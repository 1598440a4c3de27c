"""Tables from events: what an increment costs beside a large past, and how the cost grows."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.figures import Row, passed, series
from bench.plan import Plan, isolated
from penstock.engines.ledger.marker import ensure_marker, read_marker
from penstock.engines.ledger.names import log_key
from penstock.pipeline import run as pipeline_run
from penstock.pipeline.run import opened_pipeline
from penstock.pipeline.session import session
from penstock.pipeline.tables import PARTITION, Table, tables
from penstock.pipeline.warehouse.delta import KIND, DeltaWarehouse
from penstock.pipeline.warehouse.files import DataFile, arrow_schema, store_file
from penstock.pipeline.warehouse.marker import make_warehouse_marker
from penstock.pipeline.warehouse.place import Place, opened_place
from penstock.ports.store import Create
from penstock.runtime.services import Services
from penstock.stores.local import local_store
from penstock.wire.commit import CHAIN_START, encode_commit

NEW_EVENTS: Final = 10_000
OLD_EVENTS: Final = 5_000_000
QUICK_OLD_EVENTS: Final = 500_000
OLD_RATIO_MAX: Final = 1.5
MILLIONS: Final = (1, 2, 4)
QUICK_SHARE: Final = 0.1
SLOPE_RATIO_MAX: Final = 1.3
EVENTS_PER_JOB: Final = 3
EVENTS_PER_COMMIT: Final = 3_000
SMALL_FILES: Final = 200
"""Of the day that is not over: one per increment, and not compacted yet."""
OLD_DAYS: Final = 9
FILES_PER_OLD_DAY: Final = 4
TYPES: Final = ("resize", "send", "index", "bill")


@dataclass(frozen=True)
class Growth:
    events: int
    seconds: float


def measure(plan: Plan) -> list[Row]:
    old = plan.scaled(OLD_EVENTS, QUICK_OLD_EVENTS)
    share = QUICK_SHARE if plan.is_quick else 1.0
    with tempfile.TemporaryDirectory(dir=plan.folder) as place:
        folder = Path(place)
        plan.say(f"{NEW_EVENTS:,} new events beside {old:,} old ones")
        beside = isolated(increments, folder / "beside", old, plan.rounds)
        sizes = [round(million * 1_000_000 * share) for million in MILLIONS]
        plan.say(f"tables of {', '.join(f'{size:,}' for size in sizes)} events")
        growth = isolated(growths, folder / "growth", sizes, plan.rounds)
    return [_increment_row(old, beside), *_growth_rows(growth)]


def increments(folder: Path, old_events: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of the same increment, on an empty warehouse and on one with a past."""
    queue = folder / "queue"
    write_log(queue, NEW_EVENTS, _today())
    with_past = folder / "past"
    write_past(queue, with_past, old_events)
    seconds: dict[str, list[float]] = {"empty": [], "past": []}
    spark = session("local[*]")
    for number in range(-1, rounds):
        for name, found in seconds.items():
            warehouse = folder / f"{name}-{number}"
            if name == "past":
                shutil.copytree(with_past, warehouse)
            taken = timed_run(spark, queue, warehouse, None)
            shutil.rmtree(warehouse)
            if number >= 0:
                # The round before the first one warms the machine.
                found.append(taken)
    spark.stop()
    return seconds


def growths(folder: Path, sizes: list[int], rounds: int) -> list[Growth]:
    queue = folder / "queue"
    ends = write_log(queue, max(sizes), _today(), marks=sizes)
    spark = session("local[*]")
    timed_run(spark, queue, folder / "warm", 2)
    found = []
    for number in range(rounds):
        for size, last in zip(sizes, ends, strict=True):
            warehouse = folder / f"{size}-{number}"
            found.append(Growth(size, timed_run(spark, queue, warehouse, last)))
            shutil.rmtree(warehouse)
    spark.stop()
    return found


def timed_run(spark: Any, queue: Path, warehouse: Path, up_to: int | None) -> float:
    """Only the run: opening the queue is a matter of its size and not of the tables'."""
    plan = pipeline_run.Plan(queue.as_uri(), str(warehouse))
    with opened_pipeline(spark, plan) as opened:
        started_at = time.perf_counter()
        opened.run_once(up_to)
        return time.perf_counter() - started_at


def write_log(
    folder: Path, events: int, start: datetime, marks: list[int] | None = None
) -> list[int]:
    """A log of so many events, written straight; answers the commits at which marks are reached."""

    async def work() -> list[int]:
        store = local_store(str(folder), fsync=False)
        await ensure_marker(store, None, Services())
        ends: list[int] = []
        chain, commit, written = CHAIN_START, 0, 0
        waiting = list(marks or [])
        at = start.timestamp()
        while written < events:
            commit += 1
            at = round(at + 2.0, 6)
            facts = list(_facts(commit, at))
            data, chain = encode_commit(
                facts, commit=commit, commit_id=f"{commit:032x}", writer="bench", at=at,
                previous=chain,
            )  # fmt: skip
            await store.put(log_key(commit), data, Create())
            written += len(facts)
            while waiting and written >= waiting[0]:
                ends.append(commit)
                waiting.pop(0)
        await store.close()
        return ends

    return asyncio.run(work())


def _facts(commit: int, at: float) -> Iterator[Any]:
    """A thousand jobs that are enqueued, claimed and completed within one commit."""
    from penstock.kernel.events import Claimed, Completed, Enqueued, position_of

    jobs = EVENTS_PER_COMMIT // EVENTS_PER_JOB
    for number in range(jobs):
        enqueued_at = position_of(commit, number)
        who = ("default", "default", TYPES[number % len(TYPES)], f"{commit:016x}-{number:04x}")
        tenant, queue, type, id = who
        yield Enqueued(enqueued_at, at, tenant, queue, type, id, enqueued_at, at)
    for number in range(jobs):
        life = position_of(commit, number)
        type, id = TYPES[number % len(TYPES)], f"{commit:016x}-{number:04x}"
        yield Claimed(
            position_of(commit, jobs + number), at, "default", "default", type, id, life,
            1, f"{commit:032x}", at + 30, at, at, "worker-1",
        )  # fmt: skip
    for number in range(jobs):
        life = position_of(commit, number)
        type, id = TYPES[number % len(TYPES)], f"{commit:016x}-{number:04x}"
        yield Completed(
            position_of(commit, 2 * jobs + number), at, "default", "default", type, id, life,
            1, 0, at, at, at, "worker-1",
        )  # fmt: skip


def write_past(queue: Path, warehouse: Path, events: int) -> None:
    """Tables as runs every few minutes leave them: days in few files, today in many small ones."""

    async def queue_id() -> str:
        store = local_store(str(queue))
        marker = await read_marker(store)
        await store.close()
        assert marker is not None
        return f"penstock-{marker.nonce}"

    id = asyncio.run(queue_id())
    with opened_place(str(warehouse)) as place:
        make_warehouse_marker(place, id, KIND, 1)
        kept = DeltaWarehouse(place, id)
        for table in tables():
            snapshot = kept.snapshot(table)
            rows = _old_rows(table, events)
            snapshot.commit(list(_old_files(table, rows, place)), [], 0)


def _old_rows(table: Table, events: int) -> int:
    per_event = {"events": 1.0, "attempts": 1 / EVENTS_PER_JOB, "jobs": 1 / EVENTS_PER_JOB}
    buckets = {"throughput": 1_440 * (OLD_DAYS + 1) * len(TYPES), "errors": 500, "slo": 100}
    if table.name in per_event:
        return round(events * per_event[table.name])
    return buckets.get(table.name, 24 * (OLD_DAYS + 1) * 4)


def _old_files(table: Table, rows: int, place: Place) -> Iterator[DataFile]:
    today = _today()
    per_day = rows // (OLD_DAYS + 1)
    for day in range(OLD_DAYS, 0, -1):
        at = today - timedelta(days=day)
        for part in range(FILES_PER_OLD_DAY):
            start = at + timedelta(hours=6 * part)
            yield _old_file(table, per_day // FILES_PER_OLD_DAY, start, place)
    if table.is_gold:
        for hour in range(today.hour + 1):
            start = today.replace(hour=hour, minute=0, second=0, microsecond=0)
            if start.hour < today.hour or table.bucket_seconds < 3_600:
                yield _old_file(table, per_day // 24 + 1, start, place)
        return
    for part in range(SMALL_FILES):
        start = today - timedelta(seconds=part)
        yield _old_file(table, per_day // SMALL_FILES, start, place)


def _old_file(table: Table, rows: int, start: datetime, place: Place) -> DataFile:
    schema = arrow_schema(table)
    columns = [_old_column(field, rows, start) for field in schema]
    day = start.date().isoformat()
    return store_file(pa.Table.from_arrays(columns, schema=schema), table, day, place)


def _old_column(field: Any, rows: int, start: datetime) -> Any:
    if pa.types.is_timestamp(field.type):
        return pa.repeat(pa.scalar(start.replace(second=0, microsecond=0), field.type), rows)
    if field.name == PARTITION:
        return pa.repeat(pa.scalar(start.date(), field.type), rows)
    if pa.types.is_integer(field.type):
        return pa.array(range(rows), field.type)
    if pa.types.is_string(field.type):
        return pa.array([f"{field.name}-{number % 997}" for number in range(rows)], field.type)
    return pa.nulls(rows, field.type)


def _today() -> datetime:
    return datetime.now(UTC).replace(hour=12, minute=30, second=0, microsecond=0)


def _increment_row(old: int, seconds: dict[str, list[float]]) -> Row:
    past, empty = series(seconds["past"], "s"), series(seconds["empty"], "s")
    ratio = past.best / empty.best
    return Row(
        f"tables: {NEW_EVENTS:,} new events beside {old:,} old ones",
        past,
        rival_name="an empty warehouse",
        rival=empty,
        ratio=ratio,
        bar=f"≤ {OLD_RATIO_MAX} ×",
        verdict=passed(ratio <= OLD_RATIO_MAX),
    )


def _growth_rows(growth: list[Growth]) -> list[Row]:
    sizes = sorted({each.events for each in growth})
    taken = {
        size: series((each.seconds for each in growth if each.events == size), "s")
        for size in sizes
    }
    rows = [Row(f"tables: {size:,} events", taken[size]) for size in sizes]
    slopes = [
        (taken[high].best - taken[low].best) / (high - low) * 1e6 for low, high in pairwise(sizes)
    ]
    ratio = max(slopes) / min(slopes) if min(slopes) > 0 else float("inf")
    verdict = passed(ratio <= SLOPE_RATIO_MAX)
    text = " and ".join(f"{slope:.1f} s" for slope in slopes)
    rows.append(
        Row(
            "tables: one more million events costs",
            text,
            ratio=ratio,
            bar=f"≤ {SLOPE_RATIO_MAX} × apart",
            verdict=verdict,
        )
    )
    return rows
