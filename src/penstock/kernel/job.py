"""What a job is: its state and everything the queue knows about it.

Jobs are values: nobody changes one in place. A transition makes a copy (`transitions.apply`), so a
job that was handed out, indexed or snapshotted stays what it was.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct

from penstock.kernel.retry import DEFAULT_RETRY, RetryPolicy

DEFAULT_TENANT: Final = "default"
DEFAULT_QUEUE: Final = "default"
NO_SECONDS: Final = 0.0
"""A delay that nobody asked for. Known by its identity, which is quicker than a check."""
DEFAULT_PRIORITY: Final = 0
DEFAULT_ATTEMPTS: Final = 4
DEFAULT_TIMEOUT_SECONDS: Final = 300.0
DEFAULT_CODEC: Final = "json"

ABSENT: Final = Raw(b"")
"""Encoded bytes that are not here: no result yet, or kept elsewhere to stay slim."""


if TYPE_CHECKING:
    Encoded = Any
else:
    # Inside the queue these fields are encoded bytes and must be left alone by the decoder; people
    # get the same field decoded, so to a type checker it is anything.
    Encoded = Raw


class State(StrEnum):
    BLOCKED = "blocked"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    # Enum hashes by name in Python code; states key the counters that every transition touches.
    __hash__ = str.__hash__

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL: Final = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})


class Lease(Struct, frozen=True, gc=False):
    """The proof that one attempt of one job is yours.

    `fence` grows over the whole queue, so it can be handed to other systems as a fencing token;
    `secret` is the claim's operation id, 128 random bits that nobody can guess.
    """

    fence: int
    secret: str


class AttemptError(Struct, frozen=True, gc=False):
    """Why one attempt did not succeed."""

    attempt: int
    at: float
    kind: str
    message: str


class Job(Struct, omit_defaults=True, gc=False):
    """One job. Times are seconds since the epoch; absent ones are None.

    Inside the queue `payload` and `result` are encoded bytes; the client decodes them with the
    codec that is named beside them before it hands a job out.
    """

    id: str
    tenant: str
    queue: str
    type: str
    life: int
    """The log position at which this life of the id began; it never repeats."""
    enqueued_at: float
    run_at: float
    """When it is due; never before the commit that said so, which makes it half of the order."""
    payload: Encoded = ABSENT
    codec: str = DEFAULT_CODEC
    payload_key: str | None = None
    """The object that holds the payload when it is too large to be inline."""
    state: State = State.PENDING
    priority: int = DEFAULT_PRIORITY
    attempt: int = 0
    failures: int = 0
    max_attempts: int = DEFAULT_ATTEMPTS
    retry: RetryPolicy = DEFAULT_RETRY
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    key: str | None = None
    key_until: float | None = None
    """The earliest time at which the key is free, even if the job ended before."""
    meta: dict[str, Any] | None = None
    trace: str | None = None
    result: Encoded = ABSENT
    result_codec: str = DEFAULT_CODEC
    result_key: str | None = None
    errors: tuple[AttemptError, ...] = ()
    progress: float | None = None
    worker: str | None = None
    lease: Lease | None = None
    lease_until: float | None = None
    ended_lease: Lease | None = None
    """The lease that ended the last attempt, so that the same ack again is recognised."""
    started_at: float | None = None
    ended_at: float | None = None
    archived_at: float | None = None
    updated_at: float = 0.0
    """When something last happened to it, a heartbeat included."""
    trail: tuple[int, ...] = ()
    """Positions of the transitions after the first, newest last: where its history is."""
    source: int = 0
    """Of an imported job, the position of its import: its place in the order."""
    row: int = 0
    """Of an imported job, its number in the import."""
    progress_message: str | None = None
    """What the attempt said with its latest progress."""
    expired: bool = False
    """Of a job that was looked at: it is stored as running, but its lease is dead, and the next
    write, claim or `expire()` records it. Never stored."""
    operations: tuple[str, ...] = ()
    """The calls that began this life of the id and those before it, newest last; but for one that
    made the id itself."""

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    def __lt__(self, other: Job) -> bool:
        # Heap entries end in their job; where the keys before it tie, either order is right.
        return False

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.type} {self.state.value} attempt {self.attempt}>"
