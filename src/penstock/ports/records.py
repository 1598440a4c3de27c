"""The port to a shared store of records: what it must promise to carry a queue, one record per job.

A record store holds no rules. It is told what to look for and what to write; the bodies of its
records are bytes that it never reads. Everything that a queue means is decided by the kernel, in
one engine over this port (`engines/records`, with the protocol in docs/adr/0008).

The heart is `turn`: read, decide, write, all or nothing. Beside it are plain reads for people who
look, and two ways to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from penstock.errors import StoreUnavailable
from penstock.kernel.departures import Departed
from penstock.kernel.tenancy import Hold, Scope
from penstock.ports.backend import Capabilities
from penstock.ports.counters import CountChange, DueChange, Survey
from penstock.ports.listing import Page, PageAsked
from penstock.ports.store import ObjectStore
from penstock.ports.wakes import Heard, Waiter, Wake

SERVER_LOGGER: Final = "penstock.server"
"""The logger that says what a server is like, whenever a queue there is opened."""
RESERVATION_SECONDS_MAX: Final = 5.0
"""How long a store may hide records that it found for one turn from all others."""


class Shelf(StrEnum):
    """Where a record is to be found: the one index that it is in."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    DEAD = "dead"
    """Failed or cancelled."""
    ARCHIVED = "archived"


class Record(Struct, frozen=True, gc=False):
    """One job as it is kept: its body, and what the indexes need to find it."""

    tenant: str
    id: str
    life: int
    """Unique over the whole queue; records of one shelf with the same time are in this order."""
    queue: str
    type: str
    key: str | None
    priority: int
    shelf: Shelf
    at: float
    """What its shelf is sorted by: when it is due, its lease runs out, or its retention began."""
    claim: str | None
    """Of a running job: the operation that claimed it."""
    body: bytes


class Stored(Struct, frozen=True, gc=False):
    """A record as it was found."""

    life: int
    version: int
    """The commit that wrote it."""
    shelf: str
    body: bytes


class KeyHold(Struct, frozen=True, gc=False):
    """A key that is taken, by tenant and scope. Its holder's life is also its version."""

    tenant: str
    scope: Scope
    hold: Hold
    lapses_at: float | None = None
    """When time alone frees it; None while its holder is live."""


class Remembered(Struct, frozen=True, gc=False):
    """What the latest job of an id has left behind, and until when that counts."""

    tenant: str
    id: str
    departed: Departed


class Head(Struct, frozen=True):
    """Where the queue is."""

    commit: int
    """The number of the newest commit."""
    at: float
    """Its time."""
    completed: int
    """How many records are on the shelf of completed ones; about as many, where that is hot."""
    charter: bytes
    """What holds for the whole queue, encoded; empty in a new one."""
    charter_version: int
    """The commit that wrote it."""
    readable: int
    """Every commit up to here has been written or never will be, so that `commits` gives it. It
    gets to `commit`, and lags only while turns with lower numbers are under way."""
    clock: float = 0.0
    """What the writer of that time took for the time; `at` may be ahead of it."""


class Front(Struct, frozen=True):
    """The first records of a shelf: those up to a time, and at least so many, but not more than."""

    shelf: Shelf
    until: float
    least: int
    most: int


class Wanted(Struct, frozen=True):
    """Candidates for claims: the first so many pending records in claim order, due by a time.

    Claim order is (priority, at, life), over all queues and types together.
    """

    tenant: str
    queues: tuple[str, ...] | None
    """None: all, but for the paused ones."""
    paused: frozenset[str]
    types: tuple[str, ...] | None
    due_by: float
    count: int


class Need(Struct, frozen=True):
    """Everything that one batch may look at."""

    fronts: Sequence[Front] = ()
    ids: Sequence[tuple[str, str]] = ()
    """Tenant and id."""
    operations: Sequence[tuple[str, str]] = ()
    """Tenant and claim: the running records that they have."""
    wanted: Sequence[Wanted] = ()
    keys: Sequence[tuple[str, Scope]] = ()
    departed: Sequence[tuple[str, str]] = ()
    """Tenant and id: what their jobs have left behind."""
    riding: Sequence[Front] = ()
    """Fronts of which something can leave with whatever else is written."""
    may_be_idle: bool = False
    """Whether nothing can come of this where nothing is found but what rides along. Then that is
    not looked for, and the turn is given `NOTHING`: it has no number, and leaves no trace."""


class Found(Struct, frozen=True):
    commit: int
    """A number for this turn's commit, given to no other: above that of every record found."""
    records: Sequence[Stored]
    """Each once, in no order. Holders of the keys that were found are among them."""
    holds: Sequence[KeyHold]
    """Of the keys that were asked for, and of the keys of all records found."""
    departed: Sequence[Remembered] = ()
    """As far as it counts or was not forgotten."""


NOTHING: Final = Found(0, (), ())
"""For a turn that may be idle, and is."""


class Put(Struct, frozen=True, gc=False):
    record: Record
    found: int | None
    """The version it replaces; None: nothing is stored under this tenant and id."""


class Removal(Struct, frozen=True, gc=False):
    tenant: str
    id: str
    life: int
    version: int


class HoldChange(Struct, frozen=True, gc=False):
    tenant: str
    scope: Scope
    found: int | None
    """The life that held the key; None: nobody did."""
    after: KeyHold | None
    """None: it is free."""


class Unheard(Struct, frozen=True, gc=False):
    """A life that begins since nothing else was remembered of its id when that was looked for."""

    tenant: str
    id: str
    departed: Departed | None


class Departure(Struct, frozen=True, gc=False):
    """Where the history of a job that left is: the positions of its events."""

    tenant: str
    id: str
    life: int
    trail: tuple[int, ...]


class Change(Struct, frozen=True):
    """One commit: all of it is written, or nothing is."""

    commit: int
    at: float
    clock: float
    """To be given back with the highest `at`."""
    events: bytes
    """The commit's events, encoded; to be given back as they are."""
    charter_found: int
    """The version of the charter that it was decided under."""
    charter: bytes | None
    """A new one, if it changed."""
    removals: Sequence[Removal]
    """To be done first: a new life may have the id of one that is removed."""
    puts: Sequence[Put]
    holds: Sequence[HoldChange]
    unheard: Sequence[Unheard]
    """Refused if something else is remembered of one: a job of that id has come and left since."""
    counts: Sequence[CountChange]
    due: Sequence[DueChange]
    completed: int
    """By how much the number of completed records changes."""
    departures: Sequence[Departure]
    remembered: Sequence[Remembered]
    """Each replaces what was remembered of that id; what was to be remembered no longer than
    `lapsed_at` can go, now or some time."""
    sides: dict[str, float | None]
    """Side objects that a job now names (None), or was the last to name (when it left)."""
    lapsed_at: float
    """Holds whose `lapses_at` is not later can go, now or some time."""
    charter_closes: bool = False
    """Whether what was decided under the charter before must have been written or taken back by
    then, in callers' transactions too: the new one refuses what that one let in."""
    vacuum_before: float = 0.0
    vacuum_below: int = 0
    """Commits that are older and have a lower number can go, now or at a vacuum."""
    wakes: Sequence[Wake] | None = ()
    """Whom to tell of it; None: all who wait. So is it with a new charter."""


class Collided(StoreUnavailable):
    """Certainly not written: a transaction that may last has what the turn would write."""


Ask: TypeAlias = Callable[[Head], Need]
Decide: TypeAlias = Callable[[Found], Change | None]


class Due(Struct, frozen=True):
    pending: float | None
    """When the earliest of some pending records is or was due."""
    lease_end: float | None
    """When the first lease of all runs out."""
    held_seconds: float | None = None
    """How long others' turns may still have what is due, where that is known; it is not among the
    `pending` then."""
    ahead: int = 0
    """How many were noted before the one who asks, or are, if it is not."""


class RecordStore(Protocol):
    """One record per job, with a version each, in a store that many processes share.

    Guarantees that the engine relies on:

    - `turn` is one step. Between what it found and what it writes, no record or key that the change
      replaces was changed by anybody, nor the charter that it was decided under; if one was,
      nothing is written and it answers False. Whether it locks, or compares versions when it
      writes, is the store's own business.
    - A turn whose change is written is durable when it answers True, as far as `capabilities` say,
      and every turn and read that begins afterwards sees all of it.
    - A turn ends in one of three ways: True (written, or nothing to write), False (certainly not
      written, ask again), or an error (certainly not written; `Collided` if it is in the way of
      something that lasts, so that others should not wait with it). While the outcome is unknown it
      does not return: its commit's number, which is given once, says what became of it.
    - Numbers of commits grow: a turn's number is above that of every record that it found, so that
      whoever holds a job later has the higher one. Numbers may be skipped.
    - What a turn found as candidates (`Wanted`, `Front`) may be hidden from other turns while it
      lasts, and for no longer than `RESERVATION_SECONDS_MAX` by the store's clock if its process
      dies. A store that hides none, or locks, has strict order.
    - `commits` gives them in the order of their numbers and none above `Head.readable`, so that
      a reader who has seen one is never given a lower one later. `commit` gives any at once.
    - What is remembered of an id is compared like a record where a life of it begins (`Unheard`).
    - `ask` and `decide` are quick, do not wait and may be called in another thread, in that order,
      perhaps again with fresh values; the last call of each is the one that counts.
    """

    side: ObjectStore
    """For what is kept beside the records: large values, registrations, leaderships. The times of
    its objects are the store's own clock."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def has_own_clock(self) -> bool:
        """Whether `side` goes by another clock than this machine's, so that they may differ."""
        ...

    async def exists(self) -> bool:
        """Whether there is a queue; makes nothing, and may be asked before `open`."""
        ...

    async def open(self) -> None:
        """Connects, and makes or upgrades the tables; `NewerFormat` if they are of a later one."""
        ...

    async def close(self) -> None: ...

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        """Reads the head, asks what is needed, finds it, has it decided and writes the change.

        `decide` answers None when there is nothing to write. With `is_read` it always does, so
        that nothing is locked, reserved or written: it answers where nothing can be.
        """
        ...

    async def head(self) -> Head: ...

    async def listing(self, asked: PageAsked) -> Page:
        """A page as of one moment, for which no more records are looked at than a page may."""
        ...

    async def survey(self, tenant: str, at: float) -> Survey: ...

    async def tenants(self) -> list[str]:
        """All that ever had a job, in order."""
        ...

    async def lapsing(self, tenant: str, after: float) -> list[KeyHold]:
        """The holds that time alone will free, later than that; by scope."""
        ...

    async def remembered(self, tenant: str, after: float) -> list[Remembered]:
        """What counts later than that; by id."""
        ...

    async def next_due(self, wanted: Wanted, waiter: Waiter | None = None) -> Due:
        """`count` does not matter here.

        Where the store wakes those who wait (`capabilities.push`), the waiter is noted, unless
        something is due by `due_by` and it does not stay: whatever is written from then on and
        is not in this answer wakes it, once. Noting the same one again changes nothing.
        """
        ...

    async def wake(self, wakes: Sequence[Wake]) -> None:
        """Tells those who wait, as a change with these would."""
        ...

    async def departure(self, tenant: str, id: str, life: int | None) -> Departure | None:
        """The one of that life or the latest one of that id, unless its events were vacuumed."""
        ...

    async def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        """The first so many commits with a higher number, each with its events."""
        ...

    async def commit(self, number: int) -> bytes | None: ...

    async def first_commit(self) -> int:
        """The lowest number whose events were not vacuumed, whether or not it was used."""
        ...

    async def changed(self, timeout_seconds: float) -> Heard:
        """Returns when something was told since it was last called, or time is up."""
        ...

    async def sides(self) -> dict[str, float | None]:
        """What `Change.sides` said of each side object, as far as it was not forgotten."""
        ...

    async def vacuum(self, written_before: float, below: int, released_before: float) -> int:
        """Deletes commits that are older and have a lower number, and raises the first commit.

        Where nothing is deleted that stays, since lower numbers may never have been used. With the
        commits go the departures whose events are all gone, and what is known of side objects that
        were released before. Answers how many commits went.
        """
        ...
