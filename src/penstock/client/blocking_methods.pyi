"""What a type checker sees of the blocking queue: written from `Queue`, do not edit.

`python -m tests.client.blocking_stub` writes it anew.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Unpack, overload

from penstock.client.envelopes import JobOf, Payload
from penstock.client.importing import Progress
from penstock.client.leasing import LEASE_SECONDS
from penstock.client.newjob import CallOptions, NewJob
from penstock.client.tracebacks import FailureRecord
from penstock.errors import PenstockError
from penstock.kernel.commands import ImportReceipt, Receipt
from penstock.kernel.events import Event, JobEvent
from penstock.kernel.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, NO_SECONDS, Job, State
from penstock.kernel.manifest import ImportManifest
from penstock.kernel.retry import RetryPolicy
from penstock.kernel.settings import Settings, SettingsChanges
from penstock.ports.backend import (
    CancelledListener,
    Capabilities,
    IndexReport,
    Stats,
    VacuumReport,
    WorkerRecord,
)

class BlockingMethods:
    tenant: str

    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def settings(self) -> Settings: ...
    def configure(self, **changes: Unpack[SettingsChanges]) -> Settings:
        """Changes settings of the whole queue, for everybody who uses it.

        `changes` are fields of `Settings`, such as `result_ttl_seconds=60`.
        """

    def watch_cancelled(self, tell: CancelledListener) -> AbstractContextManager[None]:
        """While entered, `tell` hears what is cancelled as soon as this process knows of it.

        Of what others cancel it hears at once while `following`, and at any heartbeat.
        """

    def following(self) -> AbstractContextManager[None]:
        """While entered, others' commits are taken in as they happen, where the store pushes.

        Where it does not this does nothing: nothing is polled for it.
        """

    def enqueue(
        self,
        type: str,
        payload: Any = None,
        *,
        queue: str = DEFAULT_QUEUE,
        id: str | None = None,
        key: str | None = None,
        unique_seconds: float = NO_SECONDS,
        priority: int = DEFAULT_PRIORITY,
        delay_seconds: float = NO_SECONDS,
        run_at: float | datetime | None = None,
        max_attempts: int | None = None,
        retry: RetryPolicy | None = None,
        timeout_seconds: float | None = None,
        meta: dict[str, Any] | None = None,
        trace: str | None = None,
        codec: str | None = None,
        connection: Any = None,
        operation: str | None = None,
    ) -> Receipt:
        """Adds a job. When this returns it is durable, or was there before: see the receipt.

        `operation` names this call: asked again with the same one, it adds nothing a second time,
        whatever became of the job. Without an `id` the job's is made from it. `OutcomeUnknown` has
        the one that was made here.

        With a `connection` of yours, in a transaction, it becomes true when that commits
        (PostgreSQL).

        `type` names what is to be done and `payload` is what with, any value of its `codec` (JSON
        unless named). `queue` is where it waits; `priority` orders it there, lower first. `id` is
        yours to choose to deduplicate; `key` lets one live job at a time have it, for
        `unique_seconds` at least. It is due after `delay_seconds` or at `run_at`. An attempt has
        `timeout_seconds`; after `max_attempts` failures, spaced by `retry`, it is a dead letter;
        what these three do not say, the queue's settings do (`configure(default_max_attempts=…)`).
        `meta` and `trace` travel along.
        """

    def enqueue_many(
        self, jobs: Iterable[NewJob], *, connection: Any = None, operation: str | None = None
    ) -> list[Receipt | PenstockError]:
        """Adds many jobs with one commit, in order; one outcome each. `connection`: as above.

        `jobs` are values of `NewJob`, which has the parameters of `enqueue`. One `operation` covers
        the list: the same list again, in the same order, adds nothing twice.
        """

    def call(
        self,
        type: str,
        payload: Any = None,
        *,
        timeout_seconds: float = 30.0,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Enqueues, waits for the end and returns the result: request and response.

        Raises `JobFailed`, `JobCancelled` or `CallTimeout`. A cached result comes at once; a
        duplicate that is under way is joined. `options` are those of `enqueue`.

        `type`, `payload` and `options` are those of `enqueue`; `timeout_seconds` is how long to
        wait for the end, which the job survives.
        """

    def answer(
        self, id: str, enqueue: Callable[[], Awaitable[Receipt]], timeout_seconds: float
    ) -> Any:
        """The result of the job that `enqueue` adds under this id: `call` with a way of its own.

        `id` is the job's, `enqueue` adds it, `timeout_seconds` is how long to wait.
        """

    def new_id(self) -> str:
        """An id as `enqueue` would choose one."""

    @overload
    def cancel(self, ids: str) -> str:
        """Cancels `ids`, one or a list; answers `cancelled`, `not_found` or the state met."""

    @overload
    def cancel(self, ids: list[str]) -> list[str]: ...
    @overload
    def replay(self, ids: str) -> State:
        """Opens failed or cancelled `ids`, one or a list, again: due now, failures forgotten."""

    @overload
    def replay(self, ids: list[str]) -> list[State | PenstockError]: ...
    @overload
    def archive(self, ids: str) -> None:
        """Puts ended `ids`, one or a list, out of sight; they leave after `archive_ttl_seconds`."""

    @overload
    def archive(self, ids: list[str]) -> list[PenstockError | None]: ...
    @overload
    def unarchive(self, ids: str) -> None:
        """Brings archived `ids`, one or a list, back into sight."""

    @overload
    def unarchive(self, ids: list[str]) -> list[PenstockError | None]: ...
    def pause(self, queue: str = DEFAULT_QUEUE) -> None:
        """No job of this `queue` is claimed any more; those that run go on."""

    def resume(self, queue: str = DEFAULT_QUEUE) -> None:
        """Jobs of this `queue` may be claimed again."""

    def expire(self) -> int:
        """Takes back every dead lease now; answers how many. Claims do the same on their way."""

    @overload
    def get(self, ids: str) -> Job | None:
        """Jobs by their `ids`, one or a list; None for one that this tenant does not have.

        A value that can't be read is `Undecodable`, also one whose event was vacuumed.
        """

    @overload
    def get(self, ids: list[str]) -> list[Job | None]: ...
    def jobs(
        self,
        *,
        state: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        archived: bool = False,
        limit: int | None = None,
        after: str | None = None,
        fetch: bool = False,
    ) -> Generator[Job]:
        """Jobs of the live state, oldest first. Completed ones come without payload.

        They are read a page at a time, as they are taken. Each life of a job comes at most once, as
        it was when its page was read; none is missed that was there, and as asked for, from the
        first page to the last; those that begin later than the listing are not in it.

        Only those in this `state`, of this `queue` and `type`; `archived` ones only if asked for.
        At most `limit`; behind the job of which `after` is the `cursor`. With `fetch` a large value
        that is kept beside the queue is read, with a request of its own, and is `Undecodable` if it
        is gone; without, a `Beside` says how large it is.

        In layout `tasks` they come by the names of their objects, whatever their age.
        """

    def cursor(self, job: Job) -> str:
        """What `jobs(after=…)` takes to go on behind this `job`, as a listing has given it."""

    def stats(self) -> Stats:
        """Counts of this tenant's jobs by state, over all and by queue."""

    def history(self, id: str, *, life: int | None = None) -> list[JobEvent]:
        """Every transition of the job `id`, oldest first; empty if it is unknown.

        Of its latest life, or of the `life` that is asked for: events and receipts have its number.
        Values are as they are stored, and `Undecodable` where this process can't decode them.
        """

    def failures(self, id: str) -> list[FailureRecord]:
        """Every failed attempt of a job with its traceback, which is read back from the log.

        Empty if none failed or the job is unknown. `vacuumed` says that a traceback is gone.

        `id` is the job's.
        """

    def events(self, since: str | int = "now", *, follow: bool = True) -> Generator[Event]:
        """This tenant's events after a position, or from the "beginning" or "now" on; then live.

        Without `follow` it ends with the newest there is.

        `since` is "beginning", "now" or the position of the last event that you have.
        """

    def vacuum(self) -> VacuumReport:
        """Deletes what has outlived `log_retention_seconds` and nobody can need."""

    def repair(self) -> IndexReport:
        """Makes the indexes what the jobs say; where they can't differ there is nothing to do."""

    def workers(self) -> list[WorkerRecord]:
        """The workers that have registered, of all tenants; those long not seen are dead."""

    def register(self, record: WorkerRecord) -> None:
        """Shows a worker in the list of workers, or refreshes what is shown.

        `record` is what it says of itself.
        """

    def unregister(self, worker: str) -> None:
        """Takes the worker named `worker` off the list."""

    def elect(self, role: str, candidate: str, seconds: float) -> bool:
        """Whether the candidate leads for that long; one of many does a role's work.

        `role` names the work, `candidate` who would do it, `seconds` for how long.
        """

    def move_consumer(self, name: str, position: int) -> None:
        """Registers a reader of events, or moves it on: vacuum keeps what it has yet to read.

        `name` is the reader's, `position` that of the last event it has read.
        """

    def drop_consumer(self, name: str) -> None:
        """Forgets the reader called `name`: vacuum need not wait for it any more."""

    @overload
    def claim(
        self,
        n: int = 1,
        *,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        worker: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        wait_seconds: float = 0.0,
        operation: str | None = None,
        payload: None = None,
    ) -> list[Job]:
        """Takes up to n due jobs, in order, each with a lease of its own; waits for the first.

        A claim that does not return gives back what it got, wherever it was cancelled. `operation`
        names the claim: asking again with the same one gives the same leases while they last, so
        after `OutcomeUnknown` nothing is lost. It is the leases' secret: pass nothing that others
        can guess, and nothing that you used before. A claim that leaves takes nothing from others
        of this handle that ask with the same name; of those elsewhere it can't know.

        At most `n`, only of these `queues` and `types` (None is all), in the name of `worker`. The
        leases last `lease_seconds`; where nothing is due, it waits up to `wait_seconds` for
        something. With a type for `payload` each job's is one of that type; a job whose payload
        does not fit it fails as one that can't be decoded does.
        """

    @overload
    def claim(
        self,
        n: int = 1,
        *,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        worker: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        wait_seconds: float = 0.0,
        operation: str | None = None,
        payload: type[Payload],
    ) -> list[JobOf[Payload]]: ...
    def wait_for_work(
        self,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        *,
        timeout_seconds: float,
    ) -> None:
        """Returns when a claim may find something, or when the time is up.

        Only jobs of these `queues` and `types` count (None is all); `timeout_seconds` is the
        longest wait.
        """

    @overload
    def heartbeat(
        self,
        jobs: Job,
        *,
        progress: float | None = None,
        message: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> float:
        """Extends leases and says how far the work is; answers each new `lease_until`.

        `progress` is a number from 0 to 1 by convention, `message` a few words that go with it
        (cut after `PROGRESS_MESSAGE_CHARACTERS_MAX`); readers see both in the job.

        `jobs` is one that `claim` returned, or a list of them; from now on they have
        `lease_seconds`.
        """

    @overload
    def heartbeat(
        self,
        jobs: Sequence[Job],
        *,
        progress: float | None = None,
        message: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> list[float | PenstockError]: ...
    @overload
    def ack(self, jobs: Job, result: Any = None, *, codec: str | None = None) -> None:
        """Completes jobs. Of a list: with one result for all, or with one of `results` each.

        `jobs` is one that `claim` returned, or a list of them; `result` is any value of the `codec`
        (JSON unless named).
        """

    @overload
    def ack(
        self,
        jobs: Sequence[Job],
        result: Any = None,
        *,
        results: Sequence[Any] | None = None,
        codec: str | None = None,
    ) -> list[PenstockError | None]: ...
    @overload
    def nack(
        self,
        jobs: Job,
        error: object = "",
        *,
        retry: bool = True,
        kind: str = "error",
        delay_seconds: float | None = None,
        traceback: str | None = None,
    ) -> State:
        """Says that an attempt failed; it is tried again unless that makes no sense any more.

        The event keeps the last 4 KiB of the `traceback`, or of that which `error` carries if it
        is an exception. Each job passed in has its new `state` and `run_at` afterwards.

        `jobs` is one that `claim` returned, or a list of them; `error` and its `kind` are kept with
        the attempt. Without `retry` it is final; `delay_seconds` takes the place of the policy's
        backoff.
        """

    @overload
    def nack(
        self,
        jobs: Sequence[Job],
        error: object = "",
        *,
        retry: bool = True,
        kind: str = "error",
        delay_seconds: float | None = None,
        traceback: str | None = None,
    ) -> list[State | PenstockError]: ...
    @overload
    def release(self, jobs: Job) -> None:
        """Gives leases back: the jobs are due at once for others, and no failure is counted.

        `jobs` is one that `claim` returned, or a list of them.
        """

    @overload
    def release(self, jobs: Sequence[Job]) -> list[PenstockError | None]: ...
    @overload
    def snooze(self, jobs: Job, until: float | datetime) -> None:
        """Gives leases back to come again later; no failure is counted.

        `jobs` is one that `claim` returned, or a list of them; `until` is when they are due again.
        """

    @overload
    def snooze(
        self, jobs: Sequence[Job], until: float | datetime
    ) -> list[PenstockError | None]: ...
    def keep_alive(
        self, job: Job, *, lease_seconds: float = LEASE_SECONDS
    ) -> AbstractContextManager[Job]:
        """Heartbeats while the body runs; cancels it, and raises why, when the lease is lost.

        `job` is one that `claim` returned; each heartbeat extends its lease to `lease_seconds`.
        """

    def publish_import(
        self,
        run: str,
        manifests: Iterable[ImportManifest],
        *,
        query: str | None = None,
        batch: int | None = None,
    ) -> ImportReceipt:
        """Makes every row of a run a job, all of them by one commit, and once only.

        Doing it again answers `already published`. So does a batch of a streaming query that is
        not above the highest one published. A run that was aborted raises `RunAborted`.

        `run` names the import and `manifests` are those of its writers; `query` and `batch` are for
        streaming: whose, and the which.
        """

    def import_rows(
        self,
        run: str,
        manifests: Iterable[ImportManifest] = (),
        *,
        query: str | None = None,
        batch: int | None = None,
        progress: Progress | None = None,
    ) -> ImportReceipt:
        """Enqueues the rows of a run, of which some may be duplicates, batch by batch.

        Anybody can go on with a run that was begun, without manifests: what was recorded first
        counts. Each row is enqueued once, however often that happens.

        `run` names the import and `manifests` are those of its writers; `query` and `batch` as
        above; `progress` is told how many rows are enqueued, and of how many.
        """

    def abort_import(self, run: str) -> int:
        """Gives a run up: it can't be published any more and its objects are deleted.

        Answers how many of its rows were enqueued before, if `import_rows` had begun with it.

        `run` names the import.
        """

    def import_jobs(
        self, run: str, jobs: Iterable[NewJob], *, progress: Progress | None = None
    ) -> ImportReceipt:
        """Writes jobs as objects and publishes them as one run; any number of them.

        Jobs without id and key become one commit; if some have one, all are enqueued in batches.

        `run` names the import: the same one twice is once. `jobs` may be a generator; `progress` is
        told how many are enqueued, and of how many.
        """
