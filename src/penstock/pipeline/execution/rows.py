"""`map_jobs`: a handler over the rows of a frame, each row a job of its own.

There is no queue: Spark holds the rows, and runs a task again if it fails. What a handler may be,
what its errors mean, when it is tried again and when its time is up is as it is for any task.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, get_type_hints

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType

from penstock.app.app import App
from penstock.app.context import JobContext
from penstock.app.task import Task
from penstock.errors import InvalidInput, PayloadInvalid
from penstock.kernel.job import (
    DEFAULT_ATTEMPTS,
    DEFAULT_CODEC,
    DEFAULT_TIMEOUT_SECONDS,
    Job,
    Lease,
    State,
)
from penstock.kernel.retry import DEFAULT_RETRY, RetryPolicy
from penstock.pipeline.mapping import mapped
from penstock.runtime.exits import containing_loop
from penstock.runtime.loops import new_loop
from penstock.runtime.services import Services
from penstock.wire.codecs import Codecs
from penstock.worker.attempts import ended
from penstock.worker.endings import Ending, FailedAttempt, GivenBack, Stalled, Succeeded
from penstock.worker.options import WorkerOptions
from penstock.worker.places import Places
from penstock.worker.running import Run

DEFAULT_CONCURRENCY: Final = 16
WHOLE_ROW: Final = "row"
"""The parameter that gets the whole row, as a dictionary."""
_TASK: Final = "row"

OUTCOMES: Final = StructType(
    [
        StructField("state", StringType()),
        StructField("result", StringType()),
        StructField("error", StringType()),
        StructField("kind", StringType()),
        StructField("attempt", IntegerType()),
        StructField("seconds", DoubleType()),
    ]
)
"""What `map_jobs` adds to a row; `seconds` is how long the last attempt took."""

_ARROW: Final = pa.schema(
    [
        ("state", pa.string()),
        ("result", pa.string()),
        ("error", pa.string()),
        ("kind", pa.string()),
        ("attempt", pa.int32()),
        ("seconds", pa.float64()),
    ]
)


class Outcome(NamedTuple):
    state: str
    result: str | None
    error: str | None
    kind: str | None
    attempt: int
    seconds: float


def map_jobs(
    frame: DataFrame,
    handler: Callable[..., Any] | Task[..., Any],
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    max_attempts: int = DEFAULT_ATTEMPTS,
    retry: RetryPolicy = DEFAULT_RETRY,
) -> DataFrame:
    """The frame with what became of each row: `state` (completed, failed), `result` (JSON),
    `error`, `kind`, `attempt`, `seconds`.

    The handler, async or plain, gets the columns that its parameters name; one called `row` gets
    them all. Each task of Spark runs `concurrency` of them at once. Like every frame this one is
    computed when it is asked for, each time anew: store it if the handler has effects.
    """
    function = handler.function if isinstance(handler, Task) else handler
    WorkerOptions(concurrency=concurrency)
    clash = set(frame.columns) & set(OUTCOMES.names)
    if clash:
        raise InvalidInput(f"the frame has a column {min(clash)!r}, which map_jobs adds: rename it")
    parameters = _parameters(function, frame.columns)
    rows = RowJobs(
        function=function,
        hints=get_type_hints(function, include_extras=True),
        parameters=parameters,
        concurrency=concurrency,
        timeout_seconds=timeout_seconds,
        max_attempts=max_attempts,
        retry=retry,
    )
    return mapped(frame, rows, StructType([*frame.schema.fields, *OUTCOMES.fields]))


def _parameters(function: Callable[..., Any], columns: list[str]) -> list[str]:
    """What the handler is to be given; complains here of what would fail on every row."""
    task = App("memory://").task(name=_TASK)(function)
    wanted = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if name != task.signature.context_parameter
    }
    for name, parameter in wanted.items():
        is_optional = parameter.default is not inspect.Parameter.empty
        if name not in columns and name != WHOLE_ROW and not is_optional:
            known = ", ".join(columns)
            raise InvalidInput(f"the handler wants {name!r}; the frame's columns are {known}")
    return [name for name in wanted if name in columns or name == WHOLE_ROW]


class RowJobs(Struct, frozen=True, kw_only=True):
    """What every task of Spark is told."""

    function: Callable[..., Any]
    hints: dict[str, Any]
    """Resolved: a function that is sent by value leaves behind what its annotations name."""
    parameters: list[str]
    concurrency: int
    timeout_seconds: float
    max_attempts: int
    retry: RetryPolicy

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.function.__annotations__ = self.hints
        with asyncio.Runner(loop_factory=new_loop) as runner:
            attempts = _Attempts(self)
            try:
                for batch in batches:
                    outcomes = runner.run(attempts.of_all(batch.to_pylist()))
                    yield _with_outcomes(batch, outcomes)
            finally:
                attempts.close()


class _Attempts:
    """The attempts of one Spark task's rows, so many at a time."""

    def __init__(self, jobs: RowJobs) -> None:
        self._jobs = jobs
        self._app = App("memory://")
        self._app.task(name=_TASK)(jobs.function)
        self._services = Services()
        self._codecs = Codecs()
        self._free = asyncio.Semaphore(jobs.concurrency)
        self._places = Places(jobs.concurrency, 1, self._linger)
        self._left_by: dict[asyncio.Task[Any] | None, Future[Any]] = {}
        self._lingering = 0
        """Threads whose time is up and that go on; each keeps its place until it ends."""

    def close(self) -> None:
        self._places.close()

    async def of_all(self, rows: list[dict[str, Any]]) -> list[Outcome]:
        with containing_loop():
            return list(await asyncio.gather(*(self._outcome(row) for row in rows)))

    async def _outcome(self, row: dict[str, Any]) -> Outcome:
        payload = {name: row[name] for name in self._jobs.parameters if name in row}
        if WHOLE_ROW in self._jobs.parameters and WHOLE_ROW not in row:
            payload[WHOLE_ROW] = row
        attempt = failures = 0
        clock = self._services.clock
        while True:
            attempt += 1
            ending, seconds = await self._attempt(self._job(payload, attempt, failures))
            match ending:
                case Succeeded():
                    return self._completed(ending, attempt, seconds)
                case FailedAttempt():
                    failures += 1
                    if not ending.retry or failures >= self._jobs.max_attempts:
                        return _failed(ending, attempt, seconds)
                    luck = self._services.luck()
                    delay = self._jobs.retry.delay_seconds(failures, luck)
                    await clock.sleep(
                        delay if ending.delay_seconds is None else ending.delay_seconds
                    )
                case GivenBack():
                    await clock.sleep(max(0.0, (ending.until or 0.0) - clock.now()))
                case Stalled():
                    raise AssertionError("there is no lease to lose")

    async def _attempt(self, job: Job) -> tuple[Ending, float]:
        await self._free.acquire()
        clock, started_at = self._services.clock, self._services.clock.elapsed()
        attempt = Run(job, JobContext(job, self._app.state), started_at, needs_process=False)
        ending = await ended(self._app, attempt, self._places.execute, clock)
        thread = self._left_by.pop(asyncio.current_task(), None)
        if thread is None:
            self._free.release()
        else:
            self._keep_place(thread)
        return ending, clock.elapsed() - started_at

    def _linger(self, thread: Future[Any], job: Job) -> None:
        """The attempt that runs in the current task is over, its thread is not."""
        self._left_by[asyncio.current_task()] = thread

    def _keep_place(self, thread: Future[Any]) -> None:
        self._lingering += 1
        if self._lingering >= self._jobs.concurrency:
            raise TimeoutError(
                f"{self._lingering} handlers ignore that their time is up and hold every thread: "
                "have them look at `penstock.current_job().is_cancelled`"
            )
        loop = asyncio.get_running_loop()
        thread.add_done_callback(lambda _: loop.call_soon_threadsafe(self._give_place))

    def _give_place(self) -> None:
        self._lingering -= 1
        self._free.release()

    def _job(self, payload: dict[str, Any], attempt: int, failures: int) -> Job:
        return Job(
            id="row", tenant="", queue="", type=_TASK, life=0, enqueued_at=0.0, run_at=0.0,
            payload=payload, state=State.RUNNING, attempt=attempt, failures=failures,
            max_attempts=self._jobs.max_attempts, timeout_seconds=self._jobs.timeout_seconds,
            lease=Lease(0, ""),
        )  # fmt: skip

    def _completed(self, ending: Succeeded, attempt: int, seconds: float) -> Outcome:
        try:
            result = self._codecs.encode(ending.result, DEFAULT_CODEC)[0].decode()
        except PayloadInvalid as error:
            return _failed(FailedAttempt(ending.job, error, "result"), attempt, seconds)
        return Outcome(State.COMPLETED.value, result, None, None, attempt, seconds)


def _failed(ending: FailedAttempt, attempt: int, seconds: float) -> Outcome:
    return Outcome(State.FAILED.value, None, ending.message, ending.kind, attempt, seconds)


def _with_outcomes(batch: pa.RecordBatch, outcomes: list[Outcome]) -> pa.RecordBatch:
    columns = zip(*outcomes, strict=True) if outcomes else [()] * len(_ARROW)
    added = [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *added], [*batch.schema.names, *_ARROW.names]
    )
