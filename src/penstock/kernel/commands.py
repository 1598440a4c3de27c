"""What can be asked of a queue, as values.

Every command names its tenant and carries a list, since batches are the natural size; the answer
of a list is a list, one outcome per item, and an item that can't be done answers with its error.
`Command[Answer]` ties the two together for the type checker.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Raw, Struct

from penstock.errors import PenstockError
from penstock.kernel.departures import Departed
from penstock.kernel.job import (
    ABSENT,
    DEFAULT_CODEC,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    Encoded,
    Job,
    Lease,
    State,
)
from penstock.kernel.manifest import ImportObject
from penstock.kernel.moves import Move
from penstock.kernel.retry import RetryPolicy
from penstock.kernel.settings import Settings

Answer = TypeVar("Answer", covariant=True)
Value = TypeVar("Value")
Outcome: TypeAlias = Value | PenstockError


class Command(Struct, Generic[Answer], frozen=True, gc=False, tag_field="command"):
    tenant: str


class Submission(Struct, frozen=True, gc=False, omit_defaults=True):
    """A job as it is handed in: named, encoded and validated, but not yet accepted."""

    id: str
    type: str
    payload: Raw = ABSENT
    codec: str = DEFAULT_CODEC
    payload_key: str | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    delay_seconds: float = 0.0
    run_at: float | None = None
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    key: str | None = None
    unique_seconds: float = 0.0
    meta: dict[str, Any] | None = None
    trace: str | None = None
    operation: str | None = None
    """The call that hands it in: the same one again begins no other job. If it is the id, then the
    id was made from it; None: the id was made just now, so that nobody can have used it before."""


class Receipt(Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of an enqueue."""

    id: str
    status: Literal["queued", "duplicate", "completed"]
    state: State | None
    """Of the job that the id or key stands for; None: it left, its key or this call is known."""
    result: Encoded | None = None
    """Of a completed job, if it is still at hand."""
    result_codec: str = DEFAULT_CODEC
    result_key: str | None = None
    life: int = 0
    """Of that job: an end of an earlier life of its id is not this one's."""
    since: int = 0
    """Where its latest opening stands in the events, if this enqueue was it: nor is one before."""

    def __repr__(self) -> str:
        return f"<Receipt {self.id} {self.status}>"


class Enqueue(Command[list[Outcome[Receipt]]], frozen=True, gc=False, tag="enqueue"):
    jobs: list[Submission]


class Claim(Command[list[Job]], frozen=True, gc=False, tag="claim"):
    operation: str
    """128 random bits: the same ones again give the same leases; they are the leases' secret."""
    count: int
    lease_seconds: float
    queues: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    worker: str | None = None


class Beat(Struct, frozen=True, gc=False, omit_defaults=True):
    id: str
    lease: Lease
    lease_seconds: float
    progress: float | None = None
    progress_message: str | None = None


class Heartbeat(Command[list[Outcome[float]]], frozen=True, gc=False, tag="heartbeat"):
    """Answers the new `lease_until` of each."""

    items: list[Beat]


class Success(Struct, frozen=True, gc=False, omit_defaults=True):
    id: str
    lease: Lease
    result: Raw = ABSENT
    result_codec: str = DEFAULT_CODEC
    result_key: str | None = None


class Ack(Command[list[Outcome[None]]], frozen=True, gc=False, tag="ack"):
    items: list[Success]


class Failure(Struct, frozen=True, gc=False, omit_defaults=True):
    id: str
    lease: Lease
    error: str
    kind: str = "error"
    retry: bool = True
    delay_seconds: float | None = None
    """When given, it replaces the policy's backoff."""
    traceback: str | None = None


class Verdict(Struct, frozen=True, gc=False):
    """Where a failed attempt leaves its job: pending again, or failed."""

    state: State
    run_at: float
    """When it is due again, if it is pending."""


class Nack(Command[list[Outcome[Verdict]]], frozen=True, gc=False, tag="nack"):
    items: list[Failure]


class Return(Struct, frozen=True, gc=False, omit_defaults=True):
    id: str
    lease: Lease
    snooze_until: float | None = None


class Release(Command[list[Outcome[None]]], frozen=True, gc=False, tag="release"):
    """Gives leases back without counting a failure; a snoozed job comes back later."""

    items: list[Return]


class Cancel(Command[list[str]], frozen=True, gc=False, tag="cancel"):
    """Answers `cancelled`, `not_found` or the terminal state that was met."""

    ids: list[str]


class Replay(Command[list[Outcome[State]]], frozen=True, gc=False, tag="replay"):
    ids: list[str]


class Archive(Command[list[Outcome[None]]], frozen=True, gc=False, tag="archive"):
    ids: list[str]


class Unarchive(Command[list[Outcome[None]]], frozen=True, gc=False, tag="unarchive"):
    ids: list[str]


class Pause(Command[None], frozen=True, gc=False, tag="pause"):
    queue: str


class Resume(Command[None], frozen=True, gc=False, tag="resume"):
    queue: str


class Expire(Command[int], frozen=True, gc=False, tag="expire"):
    """The explicit sweep; answers how many leases it found dead."""


class Configure(Command[Settings], frozen=True, gc=False, tag="configure"):
    """Changes the named settings and answers all of them."""

    changes: dict[str, Any]


class NoteCheckpoint(Command[None], frozen=True, gc=False, tag="note_checkpoint"):
    commit: int
    size_bytes: int


class Sweep(Command[None], frozen=True, gc=False, tag="sweep"):
    before: float


class MoveConsumer(Command[None], frozen=True, gc=False, tag="move_consumer"):
    consumer: str
    reached: int


class DropConsumer(Command[None], frozen=True, gc=False, tag="drop_consumer"):
    consumer: str


class ImportReceipt(Struct, frozen=True, gc=False):
    """What became of an import."""

    run: str
    jobs: int
    status: Literal["published", "already published"]


class PublishImport(Command[ImportReceipt], frozen=True, gc=False, tag="publish_import"):
    """Makes all rows of a run jobs, by one commit; a run that was published stays as it is.

    The same goes for a batch of a streaming query that is not above the highest published one.
    """

    run: str
    objects: tuple[ImportObject, ...]
    query: str | None = None
    batch: int | None = None


class ImportProgress(Struct, frozen=True, gc=False):
    """How far a staged run is."""

    run: str
    """Another than was asked for, if that staged the same batch of a streaming query before."""
    reached: int
    rows: int
    is_new: bool = True
    """False: it had been published before it was asked for."""


class StageImport(Command[ImportProgress], frozen=True, gc=False, tag="stage_import"):
    """Records the objects of a run to be enqueued in batches; those recorded first count."""

    run: str
    objects: tuple[ImportObject, ...]
    query: str | None = None
    batch: int | None = None


class AdvanceImport(Command[ImportProgress], frozen=True, gc=False, tag="advance_import"):
    """Enqueues the next rows of a staged run, unless they were enqueued before."""

    run: str
    start: int


class AbortImport(Command[int], frozen=True, gc=False, tag="abort_import"):
    """Forbids the publication of a run; answers how many rows of a staged one were enqueued."""

    run: str


class MoveQueue(Command[Move], frozen=True, gc=False, tag="move_queue"):
    """Closes the whole queue by one commit: its jobs go on living at the target.

    Answers the move that is recorded then: of several who ask with the same target, the first one's
    counts for all.
    """

    move: str
    target: str


class ReopenQueue(Command[None], frozen=True, gc=False, tag="reopen_queue"):
    """Takes a move back. To be asked only after the target has aborted its filling."""

    move: str


class BeginFilling(Command[Move], frozen=True, gc=False, tag="begin_filling"):
    """Closes the target to everybody but the move; answers it as it is recorded then."""

    move: str
    source: str
    as_of: float
    """The source's time."""


class Adopt(Command[list[Outcome[bool]]], frozen=True, gc=False, tag="adopt"):
    """Lets jobs of the source go on living here, in this order; False: it did so before.

    They come as the source had them, but for the keys of side objects, which are the target's.
    """

    move: str
    jobs: list[Job]


class CarriedKey(Struct, frozen=True, gc=False):
    """A key of the source whose holder has ended."""

    queue: str
    type: str
    key: str
    id: str
    until: float
    has_job: bool
    """Whether its holder is among the jobs that are moved."""


class CarryKeys(Command[int], frozen=True, gc=False, tag="carry_keys"):
    """Holds keys as the source does; answers how many it did not hold before."""

    move: str
    keys: list[CarriedKey]


class CarryDepartures(Command[int], frozen=True, gc=False, tag="carry_departures"):
    """Knows the calls that the source knows; answers of how many jobs it did not before."""

    move: str
    departed: dict[str, Departed]


class EndFilling(Command[Move], frozen=True, gc=False, tag="end_filling"):
    """Opens the target, with what concerns whole queues: everything is there and was compared."""

    move: str
    jobs: int
    digest: str
    fences: int
    settings: Settings
    """They come along if nobody has set anything here."""
    paused: dict[str, list[str]]
    """By tenant."""
    runs: dict[str, int]
    runs_aborted: tuple[str, ...]
    queries: dict[str, int]


class AbortFilling(Command[None], frozen=True, gc=False, tag="abort_filling"):
    """Opens a target that has adopted nothing, and forbids the move for ever."""

    move: str
    source: str


class Newcomer(Struct, frozen=True, gc=False):
    """What a job would need for itself."""

    id: str
    queue: str
    type: str
    key: str | None
    """If it holds one."""


class FindConflicts(Command[list[str]], frozen=True, gc=False, tag="find_conflicts"):
    """Which ids and keys are taken here, by others than adopted jobs, in words. Changes nothing."""

    newcomers: list[Newcomer]


MoveCommand: TypeAlias = (
    MoveQueue
    | ReopenQueue
    | BeginFilling
    | Adopt
    | CarryKeys
    | CarryDepartures
    | EndFilling
    | AbortFilling
)
ImportCommand: TypeAlias = PublishImport | StageImport | AdvanceImport | AbortImport
AnyCommand: TypeAlias = (
    Enqueue
    | Claim
    | Heartbeat
    | Ack
    | Nack
    | Release
    | Cancel
    | Replay
    | Archive
    | Unarchive
    | Pause
    | Resume
    | Expire
    | Configure
    | NoteCheckpoint
    | Sweep
    | MoveConsumer
    | DropConsumer
    | ImportCommand
    | MoveCommand
    | FindConflicts
)
