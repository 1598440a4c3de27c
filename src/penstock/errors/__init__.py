"""Every error that penstock raises, as one tree.

    PenstockError
    ├── InvalidInput (ValueError)      the call itself is wrong; nothing was sent
    │   ├── InvalidURL                 a queue's address that can't be understood
    │   ├── InvalidJob                 a name, id, delay or option out of range
    │   ├── ArgumentsInvalid           they do not fit a task's annotations
    │   ├── InvalidTask                a function that can't be a task, or not under that name
    │   ├── InvalidHook                a function that can't be called as its hook is
    │   ├── UnknownType                no task of that name in this app
    │   ├── InvalidOption              of the Spark data source: a table, option or value
    │   ├── BatchTooLarge              one call of more than a commit can take
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
    │   ├── ResultUndecodable          `call`: it completed, and its result can't be read here
    │   ├── CallTimeout (TimeoutError) `call` waited long enough; the job goes on
    │   ├── KeyHeld                    another live job holds the key
    │   └── WrongState                 e.g. replaying a job that has not failed
    ├── RunProblem                     about one run of a bulk import
    │   ├── RunAborted                 it was given up and can't be published
    │   ├── RunPublished               it is published and can't be aborted
    │   ├── RunStaged                  its rows are enqueued in batches, so it is not published
    │   └── RunUnknown                 nothing was staged under that name
    ├── MoveProblem                    about moving a whole queue to another address
    │   ├── Moved                      the queue is there now; says where
    │   ├── BeingFilled                it opens when all jobs of another queue are here
    │   ├── MoveConflict               the target has the same ids or keys
    │   ├── MoveUnverified             what arrived is not what was sent
    │   ├── MoveAborted                it was given up and can't go on
    │   ├── MoveBegun                  it can't be given up any more
    │   └── MoveUnknown                nothing of that name has begun here
    ├── OutcomeUnknown                 it may or may not have happened; retrying is safe
    ├── QueueClosed                    the handle was closed
    │   └── NotOpen                    it was made and not opened yet
    ├── Forked                         the handle stayed behind in the parent process
    ├── Gap                            a reader asked for events that were vacuumed or lost
    ├── StoredLate                     a stream had passed the place of an event that came later
    ├── NoQueue                        nothing is stored at that address
    ├── HookFailed                     a start hook raised, so the worker does not begin
    ├── ChildExited                    a task that a handler had started called `sys.exit()`
    ├── LoopExited                     something else did, and ended a worker's event loop
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
    │   ├── StoreRefused               it will never take this object: a name, a size
    │   ├── StoreMissing               the bucket or container does not exist
    │   ├── StoreFull                  no space left
    │   ├── StoreUnfit                 its conditional writes do not work
    │   └── NoVersions                 the bucket's versioning is off, and nobody said that it may
    └── FormatError                    stored bytes can't be used
        ├── Corrupt                    truncated, altered or not ours
        └── NewerFormat                written by a later version of penstock

Each error carries its facts as attributes and says in its message what to do next.
"""

from __future__ import annotations

from typing import Final

from penstock.errors.input import (
    ArgumentsInvalid,
    BatchTooLarge,
    InvalidHook,
    InvalidInput,
    InvalidJob,
    InvalidOption,
    InvalidTask,
    InvalidURL,
    PayloadInvalid,
    PayloadTooLarge,
    UnknownType,
)
from penstock.errors.jobs import (
    CallTimeout,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobProblem,
    KeyHeld,
    LeaseLost,
    ResultInvalid,
    ResultUndecodable,
    WrongState,
)
from penstock.errors.missing import MissingExtra, MissingJava
from penstock.errors.moves import (
    BeingFilled,
    MoveAborted,
    MoveBegun,
    MoveConflict,
    Moved,
    MoveProblem,
    MoveUnknown,
    MoveUnverified,
)
from penstock.errors.pipeline import ForeignWarehouse, SparkFailed, WarehouseBusy, WarehouseMissing
from penstock.errors.queues import (
    ChildExited,
    ClockSkew,
    Forked,
    Gap,
    HookFailed,
    LoopExited,
    NoQueue,
    NotOpen,
    OutcomeUnknown,
    QueueClosed,
    StoredLate,
    Unsupported,
)
from penstock.errors.root import PenstockError
from penstock.errors.runs import RunAborted, RunProblem, RunPublished, RunStaged, RunUnknown
from penstock.errors.stores import (
    Corrupt,
    FormatError,
    NewerFormat,
    NoVersions,
    ObjectNotFound,
    PreconditionFailed,
    PutUnknown,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreRefused,
    StoreUnavailable,
    StoreUnfit,
)

__all__ = [
    "BatchTooLarge",
    "ArgumentsInvalid",
    "BeingFilled",
    "CallTimeout",
    "ChildExited",
    "ClockSkew",
    "Corrupt",
    "ForeignWarehouse",
    "Forked",
    "FormatError",
    "Gap",
    "HookFailed",
    "InvalidHook",
    "InvalidInput",
    "InvalidJob",
    "InvalidOption",
    "InvalidTask",
    "InvalidURL",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "JobProblem",
    "KeyHeld",
    "LeaseLost",
    "LoopExited",
    "MissingExtra",
    "MissingJava",
    "MoveAborted",
    "MoveBegun",
    "MoveConflict",
    "MoveProblem",
    "MoveUnknown",
    "MoveUnverified",
    "Moved",
    "NewerFormat",
    "NoQueue",
    "NoVersions",
    "NotOpen",
    "ObjectNotFound",
    "OutcomeUnknown",
    "PayloadInvalid",
    "PayloadTooLarge",
    "PenstockError",
    "PreconditionFailed",
    "PutUnknown",
    "QueueClosed",
    "ResultInvalid",
    "ResultUndecodable",
    "RunAborted",
    "RunProblem",
    "RunPublished",
    "RunStaged",
    "RunUnknown",
    "SparkFailed",
    "StoreDenied",
    "StoreError",
    "StoreFull",
    "StoreMissing",
    "StoreRefused",
    "StoreUnavailable",
    "StoreUnfit",
    "StoredLate",
    "UnknownType",
    "Unsupported",
    "WarehouseBusy",
    "WarehouseMissing",
    "WrongState",
]

PASSING: Final = (StoreError, OutcomeUnknown, BeingFilled, ClockSkew)
"""What may be over in a moment: whoever has time says it, waits, and tries again."""

for _name in __all__:
    # In tracebacks and logs they are called as everybody imports them.
    globals()[_name].__module__ = __name__
