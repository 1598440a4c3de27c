"""What the invariants look at, and what they say: commits, calls and violations, as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from penstock.kernel.events import (
    Admitted,
    Adopted,
    Archived,
    Cancelled,
    Claimed,
    Completed,
    Enqueued,
    Event,
    Expired,
    Extended,
    Failed,
    JobEvent,
    Progressed,
    Released,
    Replayed,
    Retried,
    Snoozed,
    Unarchived,
)
from penstock.kernel.job import Lease


class Violation(Struct, frozen=True):
    """One place where an invariant does not hold."""

    invariant: int
    """Its number in the list of `penstock.kernel.invariants`."""
    message: str
    commit: int | None = None
    tenant: str | None = None
    id: str | None = None
    position: int | None = None
    """Of the event that should not be there, where it is one."""

    def __str__(self) -> str:
        where = f"commit {self.commit}: " if self.commit is not None else ""
        whose = f"{self.tenant}/{self.id}: " if self.id is not None else ""
        return f"invariant {self.invariant}: {where}{whose}{self.message}"


class Committed(Struct, frozen=True):
    """One commit, as the log has it."""

    commit: int
    commit_id: str
    at: float
    events: Sequence[Event]
    previous: str = ""
    """The digest that it names as that of the commit before it."""
    chain: str = ""
    """The digest that the next commit has to name."""
    epoch: int = 0
    stored_at: float | None = None
    """When the store says that it was written, if it says so."""
    clock: float | None = None
    """What its writer took for the time, where `at` is ahead of it."""


class Call(Struct):
    """One request of one client and what became of it.

    `asked` and `answered` are how many commits were durable at those moments, so an answer is
    right if it is right as of some commit between them.
    """

    client: str
    kind: str
    """The command's name in small letters, or `get`."""
    tenant: str
    operation: str
    """What stays the same when the request is made again."""
    asked: int
    asked_at: float
    """Real time, which no process knows."""
    id: str = ""
    lease: Lease | None = None
    count: int = 0
    queues: tuple[str, ...] | None = None
    answered: int | None = None
    """None: there never was an answer."""
    answered_at: float = 0.0
    answer: str = ""
    """A status, state or outcome; for an error its name."""
    answer_id: str = ""
    """The job that a receipt names."""
    leases: tuple[tuple[str, Lease], ...] = ()
    """What a claim got."""
    fence: int | None = None
    """Of the attempt that wrote the result that was seen."""
    is_error: bool = False
    is_certain: bool = False
    """The error says for certain that nothing has happened."""

    @property
    def succeeded(self) -> bool:
        return self.answered is not None and not self.is_error


# Sets of classes, since looking one up is much faster than `isinstance` with a union.
JOB_EVENTS: Final[frozenset[type]] = frozenset(
    {
        Admitted, Adopted, Archived, Cancelled, Claimed, Completed, Enqueued, Expired, Extended,
        Failed, Progressed, Released, Replayed, Retried, Snoozed, Unarchived,
    }
)  # fmt: skip
ENDS: Final[frozenset[type]] = frozenset({Completed, Failed, Cancelled})
ATTEMPT_ENDS: Final[frozenset[type]] = frozenset(
    {Retried, Expired, Released, Snoozed, Completed, Failed, Cancelled}
)
FAILURES: Final[frozenset[type]] = frozenset({Retried, Expired, Failed})
RETURNS: Final[frozenset[type]] = frozenset({Retried, Expired, Released, Snoozed})


def job_events(log: Iterable[Committed]) -> Iterator[tuple[Committed, JobEvent]]:
    for commit in log:
        for event in commit.events:
            if event.__class__ in JOB_EVENTS:
                yield commit, event  # type: ignore[misc]  # the set is the union


def about(invariant: int, commit: Committed, event: JobEvent, message: str) -> Violation:
    return Violation(invariant, message, commit.commit, event.tenant, event.id, event.position)
