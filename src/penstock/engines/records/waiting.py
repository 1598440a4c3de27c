"""Those who wait for work on records, and how few of them look when some comes.

Whoever waits for work looks first, in the store: when is something due, or when does a lease run
out. With the same look the store writes down the name of who waits, once, and what for. A commit
that brings work takes as many names off that list as there are jobs, the longest waiting first, and
wakes these alone; they look, and claim. So a look in vain costs one read, and a turn in vain is
rare. What can go wrong, and what becomes of it:

- *One that is woken has left.* Its handle passes the wake-up on to the next on the list.
- *One that is woken dies*, or the wake-up is lost: everybody looks every `LOOK_SECONDS_MAX`.
- *A turn has had more for itself than it took*: its commit wakes others for the rest.
- *Something is due and one was not woken for it*, since it came due by time alone, or while one was
  looking: one leaves a moment to everyone ahead on the list, and looks again.
- *What is due belongs to a turn of another*, which may have died: it can't be claimed. Where the
  store knows until when, that is awaited; elsewhere it is tried less and less often.

A store that does not wake anybody (`capabilities.push`) says when something has happened, and all
who wait look.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha1
from math import inf
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from penstock.engines.listeners import Listeners
from penstock.engines.records.needs import wanted_by
from penstock.engines.requests import Request
from penstock.errors import QueueClosed
from penstock.kernel.changes import Changes
from penstock.kernel.commands import Claim
from penstock.kernel.job import Job, State
from penstock.ports.records import RecordStore
from penstock.ports.wakes import Waiter, Wake
from penstock.runtime.services import Services
from penstock.runtime.tasks import happens
from penstock.wire.record import Charter

LOOK_SECONDS_MAX: Final = 5.0
"""Whoever waits looks this often, whatever it is told."""
SOON_SECONDS: Final = 2 * LOOK_SECONDS_MAX
"""What comes due later than that, whoever waits finds out in time by itself."""
WAKES_MAX: Final = 100
"""A commit that brings work of more kinds wakes everybody."""
PER_PLACE_SECONDS: Final = 0.02
PLACES_SECONDS_MAX: Final = 0.5
"""How long to leave to each of those ahead what has come due by time, and to all of them."""
HELD_SECONDS: Final = 0.25
HELD_SECONDS_MAX: Final = 2.0
"""How long to leave to others what looks due and can't be claimed: at first, and at most."""

_NAMED: Final = "named"
"""What a seat is told where work has come for it; others that are woken only look."""

Kind: TypeAlias = tuple[str, tuple[str, ...] | None, tuple[str, ...] | None]
"""Tenant, queues, types."""
Lane: TypeAlias = tuple[str, str, str]
"""Tenant, queue, type."""


class _Look(Struct, frozen=True):
    seconds: float
    """Until a claim may find something; 0 or less: now."""
    due_at: float
    """When that is or was, by the time of the queue."""
    ahead: int
    """How many others were waiting before."""


class _Held(Struct, frozen=True):
    """What was due and could not be claimed: since when it is due, and how often it was tried."""

    due_at: float
    tries: int


class WaitingRoom:
    """One handle's waiters."""

    def __init__(
        self,
        store: RecordStore,
        listeners: Listeners,
        services: Services,
        as_of: Callable[[], tuple[Charter, float]],
    ) -> None:
        """`as_of`: the charter, and the time of the queue."""
        self._store = store
        self._listeners = listeners
        self._services = services
        self._as_of = as_of
        self._seats: dict[str, dict[asyncio.Future[Any], None]] = {}
        """Those who sleep, by the name that their kind has in the store; first come first."""
        self._noted: set[str] = set()
        """Names that the store may have on its list."""
        self._shown: dict[Kind, float] = {}
        """Since when something is due that the next claim of that kind will try to get."""
        self._held: dict[Kind, _Held] = {}

    async def wait(
        self,
        tenant: str,
        queues: Sequence[str] | None,
        types: Sequence[str] | None,
        timeout_seconds: float,
    ) -> None:
        """Until a claim of that kind may find something, or the time is up."""
        kind = (
            tenant,
            None if queues is None else tuple(queues),
            None if types is None else tuple(types),
        )
        clock = self._services.clock
        until = clock.elapsed() + timeout_seconds
        is_named, left_to_others = False, None
        with self._listeners.listening(for_work=self._store.capabilities.push):
            while (rest := until - clock.elapsed()) > 0:
                if self._listeners.is_closed:
                    raise QueueClosed
                # Taken before looking, so that nothing that happens meanwhile is missed.
                with self._news_for(kind) as news:
                    look = await self._look(kind)
                    is_due = look.seconds <= 0
                    if is_due and (is_named or not look.ahead or left_to_others == look.due_at):
                        return
                    if is_due:
                        left_to_others = look.due_at
                        seconds = min(look.ahead * PER_PLACE_SECONDS, PLACES_SECONDS_MAX)
                    else:
                        seconds = min(look.seconds, LOOK_SECONDS_MAX)
                    is_named = await happens(news, min(seconds, rest)) and news.result() is _NAMED
                    is_over = not news.done() and look.seconds <= min(seconds, rest)
                    if is_over and not is_due and not look.ahead:
                        return

    @property
    def may_be_told(self) -> bool:
        """Whether somebody of this handle is on the list, were it one who has left."""
        return bool(self._noted)

    async def tell(self, wakes: Sequence[tuple[str, Wake]]) -> None:
        """Wakes those who are named. Where nobody is there any more, others are told instead."""
        passed_on: list[Wake] = []
        for name, wake in wakes:
            self._noted.discard(name)
            sleeping = [seat for seat in self._seats.get(name, ()) if not seat.done()]
            for seat in sleeping[: wake.jobs]:
                seat.set_result(None if wake.jobs is None else _NAMED)
            if not sleeping and wake.jobs is not None:
                passed_on.append(wake)
        if passed_on:
            await self._store.wake(passed_on)

    def wake_all(self) -> None:
        for seats in self._seats.values():
            for seat in seats:
                if not seat.done():
                    seat.set_result(None)

    def note_claims(self, requests: Sequence[Request], answers: Sequence[object]) -> None:
        """What was shown as due and is not to be had is another's for now."""
        if not self._shown:
            return
        for request, answer in zip(requests, answers, strict=True):
            work = request.work
            if isinstance(work, Claim):
                kind = (work.tenant, work.queues, work.types)
                due_at = self._shown.pop(kind, None)
                if due_at is not None and answer == []:
                    before = self._held.get(kind)
                    is_same = before is not None and before.due_at == due_at
                    self._held[kind] = _Held(due_at, before.tries + 1 if before and is_same else 1)
                else:
                    self._held.pop(kind, None)

    @contextmanager
    def _news_for(self, kind: Kind) -> Iterator[asyncio.Future[Any]]:
        if not self._store.capabilities.push:
            news = self._listeners.commits.next()
            try:
                yield news
            finally:
                news.cancel()
            return
        name = _name_of(kind)
        seat: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        seats = self._seats.setdefault(name, {})
        seats[seat] = None
        try:
            yield seat
        finally:
            seat.cancel()
            seats.pop(seat, None)
            if not seats:
                self._seats.pop(name, None)

    async def _look(self, kind: Kind) -> _Look:
        (charter, at), name = self._as_of(), _name_of(kind)
        wanted = wanted_by(*kind, charter, at, count=1)
        stays = len(self._seats.get(name, ())) > 1
        if self._store.capabilities.push:
            self._noted.add(name)
        due = await self._store.next_due(wanted, Waiter(name, stays))
        due_at = inf if due.pending is None else due.pending
        seconds = due_at - at
        if seconds <= 0:
            self._shown[kind] = due_at
            seconds = self._held_seconds(kind, due_at)
        if due.held_seconds is not None:
            seconds = min(seconds, due.held_seconds)
        if due.lease_end is not None:
            dead_at = due.lease_end + charter.settings.clock_skew_seconds
            due_at, seconds = min(due_at, dead_at), min(seconds, dead_at - at)
        return _Look(seconds, due_at, due.ahead)

    def _held_seconds(self, kind: Kind, due_at: float) -> float:
        """How long to leave it to others; 0 if nobody has tried to get it in vain."""
        held = self._held.get(kind)
        if held is None or held.due_at != due_at:
            self._held.pop(kind, None)
            return 0.0
        return min(HELD_SECONDS * 2.0 ** (held.tries - 1), HELD_SECONDS_MAX)


@lru_cache(maxsize=1_024)
def _name_of(kind: Kind) -> str:
    """The same for the same kind, so that nobody is written down twice."""
    return sha1(msgspec.json.encode(kind), usedforsecurity=False).hexdigest()[:12]


def wakes_of(
    changes: Changes, left_over: Iterable[Job], at: float, skew_seconds: float
) -> list[Wake] | None:
    """Whom a commit has to wake; None: everybody.

    `left_over`: pending jobs that others may have passed over for this turn, which has not taken
    them either.
    """
    soon_at = at + SOON_SECONDS
    come: Counter[Lane] = Counter((job.tenant, job.queue, job.type) for job in left_over)
    soon: dict[Lane, None] = {}
    for _, job in changes.jobs:
        if job is None:
            continue
        if job.state is State.PENDING:
            if job.run_at <= at:
                come[job.tenant, job.queue, job.type] += 1
            elif job.run_at < soon_at:
                soon[job.tenant, job.queue, job.type] = None
        elif job.state is State.RUNNING:
            assert job.lease_until is not None
            if job.lease_until + skew_seconds < soon_at:
                soon[job.tenant, job.queue, job.type] = None
    wakes = {lane: Wake(*lane, jobs) for lane, jobs in come.items()}
    wakes |= {lane: Wake(*lane, None) for lane in soon}
    return None if len(wakes) > WAKES_MAX else list(wakes.values())
