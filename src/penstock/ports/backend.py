"""The port to a queue: what the client, the workers and the tools ask, and every engine answers.

`penstock.testing.conformance.backend` is this port's meaning in executable form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct

from penstock.kernel.commands import Claim, Command, Enqueue, Outcome, Receipt
from penstock.kernel.departures import Departed
from penstock.kernel.events import Cancelled, EndEvent, Event, JobEvent
from penstock.kernel.job import Job, State
from penstock.kernel.moves import Move
from penstock.kernel.settings import WEEK_SECONDS, Settings
from penstock.kernel.tenancy import Hold, Scope

Answer = TypeVar("Answer")

CancelledListener: TypeAlias = Callable[[Sequence[Cancelled] | None], None]
"""Told what was cancelled; None: something may have been, ask about those that matter."""


REGISTRATION_SECONDS: Final = 10.0
REGISTRATIONS_MISSED: Final = 3
"""A worker that lives would have been heard of."""

CALL_ITEMS_MAX: Final = 100_000
CALL_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than this no call may bring into a commit: a position has to number all of its events, and
a store has to take it within the time that it gives to one request."""


class Capabilities(Struct, frozen=True):
    """What a backend can do, as data: callers branch on it, the suites read it."""

    backend: str
    push: bool
    """Waits are woken by the store; otherwise they poll."""
    history: bool
    versions: bool
    order: Literal["strict", "approximate"]
    pause: Literal["strict", "eventual"]
    limits: Literal["strict", "eventual"]
    atomic_batch: bool
    events: Literal["ordered", "per_job", "none"]
    durability: Literal["strict", "relaxed", "none"]
    multi_process: bool
    offload: bool
    """Large payloads and results can be kept beside the queue."""
    imports: bool = False
    """Millions of jobs can be written as objects and published by one commit."""
    moves: bool = True
    """All of it can be closed, and go on living elsewhere."""
    selection: Literal["indexed", "bounded"] = "indexed"
    """What claims that name queues or types cost beside jobs of others. Indexed: nothing. Bounded:
    each looks through a limited number of these and the next one goes on from there, so that one
    may come back empty although something is due."""
    batches_at_once: int = 1
    """How many of one handle are under way: where commits are a server's work, one is decided here
    while another is written there. A worker claims in as many waves."""
    shards: str | None = None
    """Layout `tasks`: those that this handle claims from, a digit each; None elsewhere."""
    listing: Literal["oldest_first", "by_name"] = "oldest_first"
    """The order of jobs in a list. Oldest first: that in which their lives began, and those of
    imports that are not admitted yet behind them. By name: that of their objects."""
    log_retention_seconds: float = WEEK_SECONDS
    """How long events are kept unless it is configured."""
    registration_seconds: float = REGISTRATION_SECONDS
    """How often workers say that they are there: less often where every request is paid for."""
    works_when_full: bool = False
    """Where there is no room left only what adds is refused: jobs that are there can be claimed,
    kept, ended and vacuumed."""


class TypeStats(Struct, frozen=True):
    """What waits of one type in one queue."""

    type: str
    pending: int
    """Scheduled and unadmitted ones included."""
    oldest_ready_at: float | None
    """Since when the longest-waiting one has been due."""


class QueueStats(Struct, frozen=True):
    queue: str
    totals: dict[str, int]
    """Every job this queue ever had, by the state it is in or left in; each state is there."""
    pending: int
    scheduled: int
    running: int
    paused: bool
    oldest_ready_at: float | None
    """Since when the longest-waiting job has been due."""
    unadmitted: int = 0
    """How many of the pending jobs are imported and still lie in import objects; of those,
    `scheduled` counts whole chunks that are not due."""
    types: list[TypeStats] = []
    """Those that have pending jobs, by name."""


class Stats(Struct, frozen=True):
    totals: dict[str, int]
    """Of all queues together; each state is there, with 0 where no job is in it."""
    queues: list[QueueStats]
    jobs: int
    """How many jobs are in the live state, finished ones that stay for a while included."""
    commit: int
    at: float
    unadmitted: int = 0
    """How many pending jobs besides those are imported and not admitted yet."""
    state_bytes: int | None = None
    """How large the queue is where it is kept, all tenants together: what a start reads of it, or
    its tables. None where only counting everything would tell."""
    events_behind: int = 0
    """By how many commits the stream of events, which is in order, lags behind: more than a few for
    more than a moment, and somebody's transaction that has enqueued is still open."""


class TenantContents(Struct, frozen=True):
    tenant: str
    jobs: int
    """How many there are, unadmitted ones included; a few more, where some have lapsed."""
    paused: list[str]
    keys: list[tuple[Scope, Hold]]
    """Those that are held although their holder has ended, until their time is up."""
    departed: list[tuple[str, Departed]] = []
    """What jobs that left not long ago have left behind, by id."""


class Contents(Struct, frozen=True):
    """What a queue has besides its jobs, for whoever has to do with all of it."""

    at: float
    settings: Settings
    tenants: list[TenantContents]
    moves: tuple[Move, ...]
    """Every move that it took part in; the last one may be under way."""
    runs: dict[str, int] = {}
    """Bulk imports that were published, each with its number of jobs."""
    runs_aborted: tuple[str, ...] = ()
    queries: dict[str, int] = {}
    """The highest batch of each streaming query that was published."""


class Filter(Struct, frozen=True, omit_defaults=True):
    """Which jobs to list; None matches all. Archived jobs are listed only on request."""

    state: State | None = None
    queue: str | None = None
    type: str | None = None
    archived: bool = False

    def matches(self, job: Job) -> bool:
        return (
            (self.state is None or job.state is self.state)
            and (self.queue is None or job.queue == self.queue)
            and (self.type is None or job.type == self.type)
            and (job.archived_at is not None) == self.archived
        )


class WorkerRecord(Struct, frozen=True):
    """A worker as it last described itself."""

    id: str
    host: str
    pid: int
    tenant: str
    queues: list[str] | None
    concurrency: int
    started_at: float
    seen_at: float
    state: Literal["running", "draining", "stopped"]
    running: list[str]
    counters: dict[str, int]
    types: list[str] | None = None
    """The types of jobs that it claims; None: any."""
    shards: str | None = None
    """Layout `tasks`: those that it claims from."""
    busy: int = 0
    """How much of its concurrency is taken: by jobs, and by threads that outlived theirs."""
    registration_seconds: float = REGISTRATION_SECONDS
    """How often it says so."""

    def is_silent(self, at: float) -> bool:
        """Whether it has probably died."""
        return at - self.seen_at > REGISTRATIONS_MISSED * self.registration_seconds

    def serves(self, queue: str, type: str) -> bool:
        """Whether it claims jobs of this type from this queue."""
        return (self.queues is None or queue in self.queues) and (
            self.types is None or type in self.types
        )


class VacuumReport(Struct, frozen=True, omit_defaults=True):
    floor: int = 0
    """The first commit that is still there."""
    log_objects: int = 0
    checkpoints: int = 0
    data_objects: int = 0
    import_objects: int = 0


class IndexReport(Struct, frozen=True):
    """What a repair of indexes did."""

    tasks: int = 0
    """How many jobs were looked at."""
    added: int = 0
    """Entries that were missing."""
    removed: int = 0
    """Entries that stood for nothing."""
    settled: int = 0
    """Enqueues that somebody had left half done: finished, or taken back."""


class Backend(Protocol):
    """A durable queue. Everything it answers is confirmed: durable if it changed something, and
    no older than the call if it did not. A job that it returns has its payload still encoded.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def settings(self) -> Settings: ...

    async def start(self) -> None:
        """Returns when commands can be taken. One that was stopped raises `QueueClosed`."""
        ...

    async def stop(self) -> None:
        """Finishes what was accepted, then lets go. Further calls raise `QueueClosed`."""
        ...

    async def execute(self, command: Command[Answer]) -> Answer:
        """Decides, makes durable, answers. Cancelling the caller does not undo a command."""
        ...

    def claimed(
        self, command: Claim, *, keep_unknown: bool = False
    ) -> AbstractAsyncContextManager[list[Job]]:
        """What a claim got, for the block: it is given back unless the block ends well.

        So no lease is held by nobody, wherever a caller is cancelled; `stop` waits for it. With
        `keep_unknown` a claim whose outcome is unknown is left for its caller to ask again.
        """
        ...

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Job | None]: ...

    def jobs(
        self, tenant: str, filter: Filter, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Job]:
        """Jobs in the order that `Capabilities.listing` says, read a page at a time as they are
        taken: at most `limit`, behind the one that the cursor `after` is of (`ports.listing`).

        Each comes once and is as of its page. None is missed that was there, and passed the filter,
        all the while; one whose life began later than the listing is not in it.
        """
        ...

    async def stats(self, tenant: str) -> Stats: ...

    async def contents(self) -> Contents:
        """Of all tenants, as of one moment."""
        ...

    async def history(self, tenant: str, id: str, life: int | None = None) -> list[JobEvent]:
        """The transitions of one job, oldest first: of its latest life if it had several."""
        ...

    def events(
        self, tenant: str | None, since: int, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        """Events after a position, then live ones as they happen; of all tenants if None.

        Without `follow` it ends with the newest event as of the call. Raises `Gap` where they
        were vacuumed, and where the store has lost what was read: on every page, not only at first.
        """
        ...

    async def last_position(self) -> int:
        """The position of the newest event now: where 'now' begins for a reader."""
        ...

    async def wait_ready(
        self,
        tenant: str,
        queues: Sequence[str] | None,
        types: Sequence[str] | None,
        timeout_seconds: float,
    ) -> None:
        """Returns when a claim may find something, or the time is up. A hint, not a promise."""
        ...

    def watch_end(self, tenant: str, id: str) -> AbstractContextManager[Awaitable[EndEvent | None]]:
        """From entering on, the awaitable gives the event that ends the job; None: look for it.

        To be entered before enqueuing, so that no end is missed.
        """
        ...

    async def keep(self, id: str, data: bytes) -> str:
        """Stores a large payload or result beside the queue and answers its key."""
        ...

    async def fetch(self, key: str) -> bytes:
        """What `keep` stored."""
        ...

    async def keep_import(self, run: str, data: bytes) -> str:
        """Stores an object of a bulk import, to be published later, and answers its key."""
        ...

    async def abort_import(self, run: str) -> int:
        """Forbids the publication of a run, then deletes its objects; answers how many of its
        rows were enqueued before. Raises `RunPublished` where it is too late.
        """
        ...

    async def vacuum(self) -> VacuumReport:
        """Deletes what has outlived its retention and nobody can need; says how much."""
        ...

    async def register(self, record: WorkerRecord) -> None:
        """Shows a worker to those who look; again every few seconds."""
        ...

    async def unregister(self, id: str) -> None: ...

    async def workers(self) -> list[WorkerRecord]: ...

    async def elect(self, role: str, candidate: str, seconds: float) -> bool:
        """Whether the candidate leads for that long. Saves double work; proves nothing."""
        ...


@runtime_checkable
class Announcing(Protocol):
    """A backend that tells of cancellations by itself. Of others' a heartbeat tells."""

    def watch_cancelled(self, tenant: str, tell: CancelledListener) -> AbstractContextManager[None]:
        """While entered, `tell` hears of a cancellation as soon as this process knows of it.

        It costs nothing, and learns of others' commits only when something else looks for them.
        """
        ...

    def following(self) -> AbstractContextManager[None]:
        """While entered, others' commits are looked for as they happen."""
        ...


@runtime_checkable
class Transactional(Protocol):
    """A backend that can decide within a transaction of the caller's own."""

    async def execute_within(self, connection: Any, command: Enqueue) -> list[Outcome[Receipt]]:
        """Decides and answers; it becomes true and durable with the caller's transaction, or
        never was. `Unsupported` where the store has no transactions to take part in.
        """
        ...


@runtime_checkable
class Indexed(Protocol):
    """A backend whose indexes are projections that may come to differ from its jobs."""

    async def repair(self) -> IndexReport:
        """Makes the indexes what the jobs say; reads every one of them."""
        ...
