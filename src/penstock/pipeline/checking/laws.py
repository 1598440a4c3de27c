"""Which invariant is asked about what: each over the smallest part of the log that decides it.

The predicates are the kernel's own. They read a log commit by commit; here each is given the log
of one subject alone (a job, a lane of jobs of one type, a queue, the chain of headers), in order.
So subjects can be checked side by side, and each streams through: no log has to fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from math import inf
from typing import Final, NamedTuple

from penstock.engines.ledger.log.floor import FIRST_SLOT
from penstock.kernel import invariants
from penstock.kernel.events import (
    Admitted,
    Adopted,
    Archived,
    Claimed,
    Enqueued,
    Event,
    Extended,
    ImportAborted,
    ImportAdvanced,
    Imported,
    ImportStaged,
    Paused,
    Progressed,
    Replayed,
    Resumed,
    Unarchived,
    commit_of,
)
from penstock.kernel.invariants import Committed, Violation
from penstock.kernel.invariants.record import ENDS, JOB_EVENTS
from penstock.wire.commit import CHAIN_START

Law = Callable[[Iterable[Committed]], list[Violation]]

_OF_ONE_JOB: Final[tuple[Law, ...]] = (
    invariants.lives_begin_once,
    invariants.leases_are_exclusive,
    invariants.tokens_increase,
    invariants.terminal_is_final,
    invariants.attempts_are_counted,
)


def job_laws(log: Iterable[Committed]) -> list[Violation]:
    """All that is decided by one job's own events; they are few, so they may be read again."""
    commits = list(log)
    return [violation for law in _OF_ONE_JOB for violation in law(commits)]


JOB: Final = "job"
ORDER: Final = "order"
PAUSES: Final = "pauses"
RUNS: Final = "runs"


class Scope(NamedTuple):
    subject: tuple[str, ...]
    """The fields of an event that say which part of the log it belongs to."""
    events: frozenset[type]
    """What the law looks at; the rest is not sent."""
    law: Law


SCOPES: Final[dict[str, Scope]] = {
    JOB: Scope(("tenant", "id"), JOB_EVENTS, job_laws),
    "keys": Scope(
        ("tenant", "queue", "type"),
        frozenset({Enqueued, Adopted, Replayed, *ENDS}),
        invariants.keys_are_unique,
    ),
    ORDER: Scope(
        ("tenant", "queue", "type"),
        JOB_EVENTS - {Archived, Extended, Progressed, Unarchived},
        invariants.claims_follow_the_order,
    ),
    PAUSES: Scope(
        ("tenant", "queue"), frozenset({Claimed, Paused, Resumed}), invariants.pauses_hold
    ),
    RUNS: Scope(
        ("run",),
        frozenset({Imported, ImportStaged, ImportAdvanced, ImportAborted, Admitted}),
        invariants.imports_happen_once,
    ),
    "batches": Scope(
        ("query",), frozenset({Imported, ImportStaged}), invariants.imports_happen_once
    ),
}


def committed(events: Iterable[Event]) -> Iterator[Committed]:
    """One subject's events as a log of its own."""
    for commit, those in groupby(events, key=lambda event: commit_of(event.position)):
        seen = list(those)
        yield Committed(commit, "", seen[0].at, seen)


def from_floor(headers: Iterable[Committed], floor: int) -> Iterator[Committed]:
    """The log with what comes before it, so that its beginning is checked too."""
    for index, header in enumerate(headers):
        if index == 0:
            chain = CHAIN_START if floor == FIRST_SLOT else header.previous
            yield Committed(floor - 1, "", -inf, (), chain=chain)
        yield header
