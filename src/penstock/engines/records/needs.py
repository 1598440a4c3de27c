"""From requests to what has to be read for them: enough to decide as if all of it had been.

- Every job that is named, and every key.
- The dead leases, since a batch begins with them.
- For claims, the first candidates in order: of each kind of claim as many as all claims of the
  tenant together could take, and one more for each job that is cancelled before.
- What has outlived its retention, oldest first; and of completed jobs those that will be too many.

A pause, a resumption or new settings change what has to be read, so each has a turn of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from penstock.engines.requests import Query, Request, Work
from penstock.errors import PenstockError
from penstock.kernel.commands import (
    Ack,
    Archive,
    Cancel,
    Claim,
    Configure,
    Enqueue,
    Heartbeat,
    Nack,
    Pause,
    Release,
    Replay,
    Resume,
    Unarchive,
)
from penstock.kernel.settings import Settings
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Scope
from penstock.ports.records import Front, Head, Need, Shelf, Wanted
from penstock.wire.record import Charter

EXPIRIES_PER_TURN_MAX: Final = 10_000
RETIREMENTS_PER_TURN: Final = 1_000
"""How many finished jobs leave with one turn at most, or twice as many as it has items."""
_ROUNDING_SECONDS: Final = 0.001
"""A little too much is read rather than too little; the kernel decides to the digit."""


class Look(Query):
    """A read of some jobs, by tenant and id; without any, it only wants dead leases to be dead."""

    __slots__ = ("ids",)

    def __init__(
        self, look: Callable[[QueueState, float], Any], ids: list[tuple[str, str]]
    ) -> None:
        super().__init__(look)
        self.ids = ids


def runs(requests: list[Request]) -> Iterator[list[Request]]:
    """The requests in order, cut so that each run can be read for at once."""
    run: list[Request] = []
    for request in requests:
        if isinstance(request.work, Pause | Resume | Configure):
            if run:
                yield run
            yield [request]
            run = []
        else:
            run.append(request)
    if run:
        yield run


def is_read(works: list[Work]) -> bool:
    return all(isinstance(work, Query) for work in works)


def need_of(works: list[Work], charter: Charter, head: Head, at: float) -> Need:
    ids: dict[tuple[str, str], None] = {}
    keys: dict[tuple[str, Scope], None] = {}
    operations: list[tuple[str, str]] = []
    claims: list[Claim] = []
    claimable: Counter[str] = Counter()
    items = acks = 0
    for work in works:
        items += 1
        match work:
            case Enqueue():
                items += len(work.jobs)
                for new in work.jobs:
                    ids[work.tenant, new.id] = None
                    if new.key is not None:
                        keys[work.tenant, (new.queue, new.type, new.key)] = None
            case Claim():
                claims.append(work)
                operations.append((work.tenant, work.operation))
                claimable[work.tenant] += work.count
            case Ack() | Heartbeat() | Nack() | Release():
                items += len(work.items)
                acks += len(work.items) if isinstance(work, Ack) else 0
                ids.update(((work.tenant, item.id), None) for item in work.items)
            case Cancel() | Replay() | Archive() | Unarchive():
                items += len(work.ids)
                ids.update(((work.tenant, id), None) for id in work.ids)
                claimable[work.tenant] += len(work.ids) if isinstance(work, Cancel) else 0
            case Look():
                ids.update(dict.fromkeys(work.ids))
            case _:
                pass
    settings = _settings_after(works, charter.settings)
    fronts = [Front(Shelf.RUNNING, at - settings.clock_skew_seconds, 0, EXPIRIES_PER_TURN_MAX)]
    if not is_read(works):
        fronts += _retirements(settings, at, items, head.completed + acks)
    wanted = list(_wanted(claims, claimable, charter, at))
    return Need(fronts, list(ids), operations, wanted, list(keys))


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
        (one.tenant, one.queues, one.types) for one in claims
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
