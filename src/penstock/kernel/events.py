"""The facts: everything that can happen to a queue, one type each.

An event says what was decided, so applying it needs neither a clock nor luck. Each is
self-contained: it names its tenant, queue, type and time; the one that ends an attempt says when
that was due, started and by whom; the one that ends a job carries its summary. On the wire each
is one flat JSON line whose field `event` names its type.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from msgspec import Raw, Struct

from penstock.kernel.job import (
    ABSENT,
    DEFAULT_ATTEMPTS,
    DEFAULT_CODEC,
    DEFAULT_PRIORITY,
    DEFAULT_TIMEOUT_SECONDS,
    AttemptError,
    Lease,
    State,
)
from penstock.kernel.manifest import ImportObject
from penstock.kernel.retry import DEFAULT_RETRY, RetryPolicy
from penstock.kernel.settings import Settings

EVENTS_PER_COMMIT: Final = 1_000_000
"""A position is `commit × EVENTS_PER_COMMIT + index`: readable in decimal, in 63 bits."""


def position_of(commit: int, index: int) -> int:
    return commit * EVENTS_PER_COMMIT + index


def commit_of(position: int) -> int:
    return position // EVENTS_PER_COMMIT


def index_of(position: int) -> int:
    """The place of an event in its commit."""
    return position % EVENTS_PER_COMMIT


class Fact(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="event"):
    position: int
    at: float
    tenant: str

    @property
    def event(self) -> str:
        """Its name, as in the log and in Spark."""
        tag = self.__struct_config__.tag
        assert isinstance(tag, str)
        return tag


class JobFact(Fact, frozen=True, gc=False, omit_defaults=True, tag_field="event"):
    queue: str
    type: str
    id: str
    life: int


class Enqueued(JobFact, frozen=True, gc=False, omit_defaults=True, tag="enqueued"):
    run_at: float
    payload: Raw = ABSENT
    codec: str = DEFAULT_CODEC
    payload_key: str | None = None
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_ATTEMPTS
    retry: RetryPolicy = DEFAULT_RETRY
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    key: str | None = None
    key_until: float | None = None
    meta: dict[str, Any] | None = None
    trace: str | None = None
    operation: str | None = None
    """The call that began this life; None if it made the id itself."""


class Admitted(Enqueued, frozen=True, gc=False, omit_defaults=True, tag="admitted"):
    """An imported job begins its life; `enqueued_at` is when its run was published."""

    enqueued_at: float = 0.0
    run: str = ""
    source: int = 0
    """The position of the `imported` event that brought it: its place in the order."""
    row: int = 0
    """Its number in the run, which decides where the order is a tie."""


class Adopted(Enqueued, frozen=True, gc=False, omit_defaults=True, tag="adopted"):
    """A job of another queue goes on living here, in the state and with the lease it had there.

    What happened to it before is in the log of the other queue.
    """

    state: State = State.PENDING
    enqueued_at: float = 0.0
    attempt: int = 0
    failures: int = 0
    result: Raw = ABSENT
    result_codec: str = DEFAULT_CODEC
    result_key: str | None = None
    errors: tuple[AttemptError, ...] = ()
    progress: float | None = None
    worker: str | None = None
    lease: Lease | None = None
    lease_until: float | None = None
    ended_lease: Lease | None = None
    started_at: float | None = None
    ended_at: float | None = None
    archived_at: float | None = None
    progress_message: str | None = None
    updated_at: float = 0.0
    operations: tuple[str, ...] = ()


class Claimed(JobFact, frozen=True, gc=False, omit_defaults=True, tag="claimed"):
    """Its operation is the lease's secret, its position the fence unless it says another."""

    attempt: int
    operation: str
    lease_until: float
    enqueued_at: float
    run_at: float
    worker: str | None = None
    fence: int = 0
    """Of a queue that was filled from another one, whose fences were higher."""
    earlier: tuple[int, ...] = ()
    """Where transitions are that the job's trail lets go with this one: whoever follows the trail
    goes on from here."""

    @property
    def lease(self) -> Lease:
        return Lease(self.fence or self.position, self.operation)


class Extended(JobFact, frozen=True, gc=False, omit_defaults=True, tag="extended"):
    attempt: int
    lease_until: float
    worker: str | None = None


class Progressed(JobFact, frozen=True, gc=False, omit_defaults=True, tag="progressed"):
    attempt: int
    lease_until: float
    progress: float
    worker: str | None = None
    progress_message: str | None = None


class _AttemptEnd(JobFact, frozen=True, gc=False, omit_defaults=True, tag_field="event"):
    attempt: int
    failures: int
    enqueued_at: float
    due_at: float
    started_at: float | None = None
    worker: str | None = None


class Retried(_AttemptEnd, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="retried"):
    run_at: float
    kind: str
    error: str
    traceback: str | None = None
    """Here alone: a job keeps kind and message, so what it weighs in memory stays the same.

    None: there was none. `STORED_BESIDE`: it is kept elsewhere, or was until it was vacuumed.
    """


STORED_BESIDE: Final = ""
"""In the place of a traceback that an engine keeps apart from its event."""
UNDECODABLE: Final = "undecodable"
"""The kind of error of an attempt whose payload nobody here could read."""
EXPIRED: Final = "expired"
"""The kind of error of an attempt whose lease ran out, also where it was the last."""


class Expired(_AttemptEnd, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="expired"):
    run_at: float
    kind: str
    error: str


class Released(
    _AttemptEnd, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="released"
):
    run_at: float


class Snoozed(_AttemptEnd, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="snoozed"):
    run_at: float


class _JobEnd(_AttemptEnd, frozen=True, gc=False, omit_defaults=True, tag_field="event"):
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_ATTEMPTS
    key: str | None = None
    meta: dict[str, Any] | None = None
    trace: str | None = None
    errors: tuple[AttemptError, ...] = ()


class Completed(_JobEnd, frozen=True, gc=False, omit_defaults=True, tag="completed"):
    result: Raw = ABSENT
    result_codec: str = DEFAULT_CODEC
    result_key: str | None = None


class Failed(_JobEnd, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="failed"):
    kind: str
    error: str
    traceback: str | None = None


class Cancelled(_JobEnd, frozen=True, gc=False, omit_defaults=True, tag="cancelled"):
    pass


class Replayed(JobFact, frozen=True, gc=False, omit_defaults=True, tag="replayed"):
    run_at: float
    earlier: tuple[int, ...] = ()


class Archived(JobFact, frozen=True, gc=False, omit_defaults=True, tag="archived"):
    earlier: tuple[int, ...] = ()


class Unarchived(JobFact, frozen=True, gc=False, omit_defaults=True, tag="unarchived"):
    pass


class Paused(Fact, frozen=True, gc=False, omit_defaults=True, tag="paused"):
    queue: str


class Resumed(Fact, frozen=True, gc=False, omit_defaults=True, tag="resumed"):
    queue: str


class Configured(Fact, frozen=True, gc=False, omit_defaults=True, tag="configured"):
    settings: Settings


class Checkpointed(Fact, frozen=True, gc=False, omit_defaults=True, tag="checkpointed"):
    """A checkpoint of an earlier commit is stored; the tail is counted from there."""

    commit: int
    size_bytes: int


class Swept(Fact, frozen=True, gc=False, omit_defaults=True, tag="swept"):
    """Side objects named before this time may be deleted; none can be published any more."""

    before: float


class ConsumerMoved(Fact, frozen=True, gc=False, omit_defaults=True, tag="consumer_moved"):
    """A registered reader has taken everything up to a position; vacuum stays behind it."""

    consumer: str
    reached: int


class ConsumerDropped(Fact, frozen=True, gc=False, omit_defaults=True, tag="consumer_dropped"):
    consumer: str


class Imported(Fact, frozen=True, gc=False, omit_defaults=True, tag="imported"):
    """A run was published: all of these rows are jobs from now on."""

    run: str
    rows: int
    objects: tuple[ImportObject, ...] = ()
    query: str | None = None
    batch: int | None = None


class ImportStaged(Fact, frozen=True, gc=False, omit_defaults=True, tag="import_staged"):
    """A run whose rows may be duplicates: they are enqueued in batches, from these objects."""

    run: str
    rows: int
    objects: tuple[ImportObject, ...]
    query: str | None = None
    batch: int | None = None


class ImportAdvanced(Fact, frozen=True, gc=False, omit_defaults=True, tag="import_advanced"):
    """The rows of a staged run before this one are enqueued."""

    run: str
    reached: int


class ImportAborted(Fact, frozen=True, gc=False, omit_defaults=True, tag="import_aborted"):
    """A run can't be published any more, so its objects may be deleted."""

    run: str


class QueueMoved(Fact, frozen=True, gc=False, omit_defaults=True, tag="queue_moved"):
    """From here on nothing happens to this queue's jobs here: they go on living at the target."""

    move: str
    target: str
    fences: int
    """Above every fence that was given out."""


class QueueReopened(Fact, frozen=True, gc=False, omit_defaults=True, tag="queue_reopened"):
    """The move was aborted before the target had adopted a job."""

    move: str


class FillingBegun(Fact, frozen=True, gc=False, omit_defaults=True, tag="filling_begun"):
    """Only jobs of another queue come in from here on, until all are there."""

    move: str
    source: str
    as_of: float
    """The time that stands still meanwhile: that of the source, if it was earlier there."""


class FillingEnded(Fact, frozen=True, gc=False, omit_defaults=True, tag="filling_ended"):
    """All jobs are there and were compared; the queue is open."""

    move: str
    jobs: int
    digest: str
    fences: int
    runs: dict[str, int] = {}
    """Bulk imports that the source had published, each with its number of jobs."""
    runs_aborted: tuple[str, ...] = ()
    queries: dict[str, int] = {}
    """The highest batch of each streaming query that the source had published."""


class FillingAborted(Fact, frozen=True, gc=False, omit_defaults=True, tag="filling_aborted"):
    """Given up before a job was adopted, or even before it began; the queue is open."""

    move: str
    source: str


class KeyCarried(Fact, frozen=True, gc=False, omit_defaults=True, tag="key_carried"):
    """A key of the source whose job had ended is held here as well, until its time is up."""

    queue: str
    type: str
    key: str
    id: str
    life: int
    """Of the job if that was adopted; otherwise of nobody."""
    until: float


class DepartureCarried(Fact, frozen=True, gc=False, omit_defaults=True, tag="departure_carried"):
    """What a job that had left the source has left behind is known here as well."""

    id: str
    until: float
    operations: tuple[str, ...] = ()


AttemptEvent: TypeAlias = Claimed | Extended | Progressed | Retried | Expired | Released | Snoozed
EndEvent: TypeAlias = Completed | Failed | Cancelled
JobEvent: TypeAlias = (
    Enqueued | Admitted | Adopted | AttemptEvent | EndEvent | Replayed | Archived | Unarchived
)
ImportEvent: TypeAlias = Imported | ImportStaged | ImportAdvanced | ImportAborted
MoveEvent: TypeAlias = QueueMoved | QueueReopened | FillingBegun | FillingEnded | FillingAborted
QueueEvent: TypeAlias = (
    Paused
    | Resumed
    | Configured
    | Checkpointed
    | Swept
    | ConsumerMoved
    | ConsumerDropped
    | ImportEvent
    | MoveEvent
    | KeyCarried
    | DepartureCarried
)
Event: TypeAlias = JobEvent | QueueEvent

SYSTEM_TENANT: Final = ""
"""The tenant of events that concern the whole queue; no tenant can be called that."""
