"""From requests to what has to be read for them: enough to decide as if all of it had been.

- Every job that is named, and every key.
- The dead leases, since a batch of commands begins with them.
- For claims, the first candidates in order: of each kind of claim as many as all claims of the
  tenant together could take, and one more for each job that is cancelled before.
- What has outlived its retention, oldest first; and of completed jobs those that will be too many.
  It leaves with what is written anyway: a claim that finds nothing does not look for it.

A pause, a resumption, new settings and what opens or closes the queue change what has to be read,
so each has a turn of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, assert_never

import msgspec

from penstock.engines.requests import Query, Request, Work
from penstock.errors import PenstockError
from penstock.kernel.commands import (
    AbortFilling,
    Ack,
    Adopt,
    Archive,
    BeginFilling,
    Cancel,
    CarriedKey,
    CarryDepartures,
    CarryKeys,
    Claim,
    Configure,
    EndFilling,
    Enqueue,
    FindConflicts,
    Heartbeat,
    MoveQueue,
    Nack,
    Newcomer,
    Pause,
    Release,
    ReopenQueue,
    Replay,
    Resume,
    Submission,
    Unarchive,
)
from penstock.kernel.job import Job
from penstock.kernel.settings import Settings
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Scope
from penstock.ports.records import Front, Head, Need, Shelf, Wanted
from penstock.wire.record import Charter

EXPIRIES_PER_TURN_MAX: Final = 10_000
RETIREMENTS_PER_TURN: Final = 1_000
"""How many finished jobs leave with one turn at most, or twice as many as it has items."""
LARGE_CLAIM: Final = 16
_ROUNDING_SECONDS: Final = 0.001
"""A little too much is read rather than too little; the kernel decides to the digit."""


_CHARTER_COMMANDS: Final = (
    Pause, Resume, Configure, MoveQueue, ReopenQueue, BeginFilling, EndFilling, AbortFilling,
)  # fmt: skip


_ADDING: Final = (Enqueue, Adopt, CarryKeys, CarryDepartures)
"""What takes room; everything else changes or lets go what is there."""


class Look(Query):
    """A read of some jobs, by tenant and id; without any, only the time and charter."""

    __slots__ = ("ids",)

    def __init__(
        self, look: Callable[[QueueState, float], Any], ids: list[tuple[str, str]]
    ) -> None:
        super().__init__(look)
        self.ids = ids


def runs(requests: list[Request]) -> Iterator[list[Request]]:
    """The requests in order, cut so that each run can be read for at once.

    A large claim ends its run: what it gets can be worked on while the next is written. The reads
    come first, by themselves, since they need nothing to be written; whoever asks at the same time
    can't tell the difference.
    """
    reads = [request for request in requests if isinstance(request.work, Query)]
    if reads:
        yield reads
    run: list[Request] = []
    for request in requests:
        if isinstance(request.work, Query):
            continue
        if isinstance(request.work, _CHARTER_COMMANDS):
            if run:
                yield run
            yield [request]
            run = []
            continue
        run.append(request)
        if isinstance(request.work, Claim) and request.work.count >= LARGE_CLAIM:
            yield run
            run = []
    if run:
        yield run


def parted(requests: list[Request]) -> tuple[list[Request], list[Request]]:
    """Those that may add something, which takes room, and those that do not."""
    adding = [request for request in requests if isinstance(request.work, _ADDING)]
    return adding, [one for one in requests if not isinstance(one.work, _ADDING)]


def is_read(works: list[Work]) -> bool:
    return all(isinstance(work, Query) for work in works)


def need_of(
    works: list[Work], charter: Charter, head: Head, at: float, *, has_news: bool = False
) -> Need:
    """With `has_news` the turn has something to say whatever it finds."""
    ids: dict[tuple[str, str], None] = {}
    keys: dict[tuple[str, Scope], None] = {}
    departed: dict[tuple[str, str], None] = {}
    claims = [work for work in works if isinstance(work, Claim)]
    claimable: Counter[str] = Counter()
    completions = 0
    for work in works:
        match work:
            case Claim():
                claimable[work.tenant] += work.count
            case Ack() | Heartbeat() | Nack() | Release():
                ids.update(((work.tenant, item.id), None) for item in work.items)
                completions += len(work.items) if isinstance(work, Ack) else 0
            case Cancel() | Replay() | Archive() | Unarchive():
                ids.update(((work.tenant, id), None) for id in work.ids)
                claimable[work.tenant] += len(work.ids) if isinstance(work, Cancel) else 0
            case Enqueue() | Adopt() | CarryKeys() | FindConflicts():
                _add_newcomers(work, ids, keys)
                if isinstance(work, Enqueue):
                    # An id that was made just now nobody has used before.
                    known = (new.id for new in work.jobs if new.operation is not None)
                    departed.update(((work.tenant, id), None) for id in known)
                completions += len(work.jobs) if isinstance(work, Adopt) else 0
            case CarryDepartures():
                each = [(work.tenant, id) for id in work.departed]
                ids.update(dict.fromkeys(each))
                departed.update(dict.fromkeys(each))
            case Look():
                ids.update(dict.fromkeys(work.ids))
            case _:
                pass
    settings = _settings_after(works, charter.settings)
    fronts: list[Front] = []
    riding: list[Front] = []
    if not is_read(works):
        fronts.append(
            Front(Shelf.RUNNING, at - settings.clock_skew_seconds, 0, EXPIRIES_PER_TURN_MAX)
        )
        riding += _retirements(settings, at, len(works) + len(ids), head.completed + completions)
    operations = [(claim.tenant, claim.operation) for claim in claims]
    wanted = list(_wanted(claims, claimable, charter, at))
    return Need(
        fronts, list(ids), operations, wanted, list(keys), list(departed), riding,
        may_be_idle=len(claims) == len(works) and not has_news,
    )  # fmt: skip


def _add_newcomers(
    work: Enqueue | Adopt | CarryKeys | FindConflicts,
    ids: dict[tuple[str, str], None],
    keys: dict[tuple[str, Scope], None],
) -> None:
    match work:
        case Enqueue() | Adopt():
            newcomers: Iterable[Submission | Job | CarriedKey | Newcomer] = work.jobs
        case CarryKeys():
            newcomers = work.keys
        case FindConflicts():
            newcomers = work.newcomers
        case _:
            assert_never(work)
    for new in newcomers:
        ids[work.tenant, new.id] = None
        if new.key is not None:
            keys[work.tenant, (new.queue, new.type, new.key)] = None


def wanted_by(
    tenant: str,
    queues: Iterable[str] | None,
    types: Iterable[str] | None,
    charter: Charter,
    at: float,
    count: int,
) -> Wanted:
    return Wanted(
        tenant,
        None if queues is None else tuple(dict.fromkeys(queues)),
        frozenset(charter.paused.get(tenant, ())),
        None if types is None else tuple(dict.fromkeys(types)),
        at,
        count,
    )


def _wanted(
    claims: list[Claim], claimable: Counter[str], charter: Charter, at: float
) -> Iterator[Wanted]:
    for tenant, queues, types in dict.fromkeys(
        # One that asks for none only wants to know what it got before.
        (one.tenant, one.queues, one.types)
        for one in claims
        if one.count
    ):
        yield wanted_by(tenant, queues, types, charter, at, claimable[tenant])


def _retirements(settings: Settings, at: float, items: int, completed: int) -> Iterator[Front]:
    most = max(RETIREMENTS_PER_TURN, 2 * items)
    too_many = max(0, completed - settings.finished_jobs_max)
    at += _ROUNDING_SECONDS
    yield Front(Shelf.COMPLETED, at - settings.result_ttl_seconds, min(too_many, most), most)
    yield Front(Shelf.DEAD, at - settings.dead_letter_ttl_seconds, 0, most)
    yield Front(Shelf.ARCHIVED, at - settings.archive_ttl_seconds, 0, most)


def _settings_after(works: list[Work], settings: Settings) -> Settings:
    """What is let go goes by the settings that the turn itself makes."""
    for work in works:
        if isinstance(work, Configure):
            try:
                return msgspec.structs.replace(settings, **work.changes)
            except (PenstockError, TypeError):
                return settings
    return settings
