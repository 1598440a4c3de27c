"""The queue: everything a program does with jobs, the same on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar, Unpack, overload

from msgspec.structs import replace

from penstock.client.arguments import (
    check_count,
    check_function,
    many_ids,
    many_new_jobs,
    one_or_all,
    plain_id,
    plain_position,
    position_named,
    raised,
    readable_worker,
    state_named,
)
from penstock.client.calls import Calls
from penstock.client.importing import Importing
from penstock.client.leasing import Leasing
from penstock.client.newjob import CallOptions, NewJob, check_name, check_text
from penstock.client.operations import id_of, name_jobs
from penstock.client.submitting import Submitting
from penstock.client.tracebacks import FailureRecord, failure_records
from penstock.errors import InvalidInput, PenstockError
from penstock.errors.input import shown
from penstock.kernel import commands
from penstock.kernel.commands import Receipt
from penstock.kernel.events import SYSTEM_TENANT, Event, JobEvent
from penstock.kernel.job import (
    ABSENT,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    NO_SECONDS,
    Job,
    State,
)
from penstock.kernel.plain import (
    WHOLE_MAX,
    is_a,
    plain_seconds,
    plain_switch,
    plain_text,
    plain_whole,
)
from penstock.kernel.retry import RetryPolicy
from penstock.ports.backend import (
    Filter,
    Indexed,
    IndexReport,
    Stats,
    VacuumReport,
    WorkerRecord,
)
from penstock.ports.listing import cursor_of

Value = TypeVar("Value")


class Queue(Leasing, Importing, Submitting):
    """A queue as one tenant sees it. Made by `penstock.open`; use it with `async with`."""

    # Putting jobs in

    async def enqueue(
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
        new = NewJob(
            type, payload, queue, id, key, unique_seconds, priority, delay_seconds, run_at,
            max_attempts, retry, timeout_seconds, meta, trace, codec, operation,
        )  # fmt: skip
        if connection is not None:
            self._require_transactions()
        call, [(id, own)] = name_jobs([new], None, self._services)
        prepared = self._prepared(new, id, own) or await self._offloaded(new, id, own)
        [outcome] = await self._submit([prepared], call, connection)
        receipt = raised(outcome)
        return receipt if receipt.status != "completed" else await self._opened(receipt)

    async def enqueue_many(
        self, jobs: Iterable[NewJob], *, connection: Any = None, operation: str | None = None
    ) -> list[Receipt | PenstockError]:
        """Adds many jobs with one commit, in order; one outcome each. `connection`: as above.

        `jobs` are values of `NewJob`, which has the parameters of `enqueue`. One `operation` covers
        the list: the same list again, in the same order, adds nothing twice.
        """
        many = many_new_jobs(jobs)
        check_count("enqueue_many", len(many))
        if not many:
            return []
        if connection is not None:
            self._require_transactions()
        call, names = name_jobs(many, operation, self._services)
        return [
            await self._opened(outcome)
            if isinstance(outcome, Receipt) and outcome.status == "completed"
            else outcome
            for outcome in await self._submit_each(many, names, call, connection)
        ]

    async def call(
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
        id, operation = options.get("id"), options.get("operation")
        if id is None:
            # Known before it is enqueued, to be watched from then on.
            id = self.new_id() if operation is None else id_of(operation)
            options["id"] = options["operation"] = id
        return await self.answer(
            id, lambda: self.enqueue(type, payload, **options), timeout_seconds
        )

    async def answer(
        self, id: str, enqueue: Callable[[], Awaitable[Receipt]], timeout_seconds: float
    ) -> Any:
        """The result of the job that `enqueue` adds under this id: `call` with a way of its own.

        `id` is the job's, `enqueue` adds it, `timeout_seconds` is how long to wait.
        """
        id, timeout_seconds = plain_id(id), plain_seconds("timeout_seconds", timeout_seconds)
        check_function("enqueue", enqueue)
        calls = Calls(self._backend, self.tenant, self._envelopes, self._finish)
        return await calls.call(id, enqueue, timeout_seconds)

    def new_id(self) -> str:
        """An id as `enqueue` would choose one."""
        return self._services.new_id()

    # Managing jobs

    @overload
    async def cancel(self, ids: str) -> str: ...
    @overload
    async def cancel(self, ids: list[str]) -> list[str]: ...
    async def cancel(self, ids: str | list[str]) -> Any:
        """Cancels `ids`, one or a list; answers `cancelled`, `not_found` or the state met."""
        many = many_ids(ids)
        outcomes = await self._settle(commands.Cancel(self.tenant, many), many)
        return one_or_all(ids, outcomes)

    @overload
    async def replay(self, ids: str) -> State: ...
    @overload
    async def replay(self, ids: list[str]) -> list[State | PenstockError]: ...
    async def replay(self, ids: str | list[str]) -> Any:
        """Opens failed or cancelled `ids`, one or a list, again: due now, failures forgotten."""
        many = many_ids(ids)
        return one_or_all(ids, await self._settle(commands.Replay(self.tenant, many), many))

    @overload
    async def archive(self, ids: str) -> None: ...
    @overload
    async def archive(self, ids: list[str]) -> list[PenstockError | None]: ...
    async def archive(self, ids: str | list[str]) -> Any:
        """Puts ended `ids`, one or a list, out of sight; they leave after `archive_ttl_seconds`."""
        many = many_ids(ids)
        return one_or_all(ids, await self._settle(commands.Archive(self.tenant, many), many))

    @overload
    async def unarchive(self, ids: str) -> None: ...
    @overload
    async def unarchive(self, ids: list[str]) -> list[PenstockError | None]: ...
    async def unarchive(self, ids: str | list[str]) -> Any:
        """Brings archived `ids`, one or a list, back into sight."""
        many = many_ids(ids)
        return one_or_all(ids, await self._settle(commands.Unarchive(self.tenant, many), many))

    async def pause(self, queue: str = DEFAULT_QUEUE) -> None:
        """No job of this `queue` is claimed any more; those that run go on."""
        await self._backend.execute(commands.Pause(self.tenant, check_name("queue", queue)))

    async def resume(self, queue: str = DEFAULT_QUEUE) -> None:
        """Jobs of this `queue` may be claimed again."""
        await self._backend.execute(commands.Resume(self.tenant, check_name("queue", queue)))

    async def expire(self) -> int:
        """Takes back every dead lease now; answers how many. Claims do the same on their way."""
        return await self._backend.execute(commands.Expire(self.tenant))

    # Looking

    @overload
    async def get(self, ids: str) -> Job | None: ...
    @overload
    async def get(self, ids: list[str]) -> list[Job | None]: ...
    async def get(self, ids: str | list[str]) -> Any:
        """Jobs by their `ids`, one or a list; None for one that this tenant does not have.

        A value that can't be read is `Undecodable`, also one whose event was vacuumed.
        """
        many = many_ids(ids)
        jobs = await self._backend.get(self.tenant, many) if many else []
        seen = [None if job is None else await self._envelopes.open_whole(job) for job in jobs]
        return one_or_all(ids, seen)

    async def jobs(
        self,
        *,
        state: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        archived: bool = False,
        limit: int | None = None,
        after: str | None = None,
        fetch: bool = False,
    ) -> AsyncIterator[Job]:
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
        wanted = Filter(
            None if state is None else state_named(state),
            None if queue is None else plain_text("queue", queue),
            None if type is None else plain_text("type", type),
            plain_switch("archived", archived),
        )
        if limit is not None:
            limit = plain_whole(
                "limit", limit, 0, WHOLE_MAX, "it must be a whole number, 0 or more"
            )
        if after is not None:
            after = plain_text("after", after)
        fetch, envelopes = plain_switch("fetch", fetch), self._envelopes
        async for job in self._backend.jobs(self.tenant, wanted, after=after, limit=limit):
            yield await envelopes.open(job) if fetch else envelopes.open_listed(job)

    def cursor(self, job: Job) -> str:
        """What `jobs(after=…)` takes to go on behind this `job`, as a listing has given it."""
        if not is_a(job, Job):
            raise InvalidInput(f"cursor({shown(job)}): it must be a job, as a listing gives it")
        return cursor_of(job)

    async def stats(self) -> Stats:
        """Counts of this tenant's jobs by state, over all and by queue."""
        return await self._backend.stats(self.tenant)

    async def history(self, id: str, *, life: int | None = None) -> list[JobEvent]:
        """Every transition of the job `id`, oldest first; empty if it is unknown.

        Of its latest life, or of the `life` that is asked for: events and receipts have its number.
        Values are as they are stored, and `Undecodable` where this process can't decode them.
        """
        if life is not None:
            life = plain_position("life", life, "a life's number, as events have it")
        events = await self._backend.history(self.tenant, plain_id(id), life)
        return [await self._envelopes.tell(event) for event in events]

    async def failures(self, id: str) -> list[FailureRecord]:
        """Every failed attempt of a job with its traceback, which is read back from the log.

        Empty if none failed or the job is unknown. `vacuumed` says that a traceback is gone.

        `id` is the job's.
        """
        id = plain_id(id)
        job = (await self._backend.get(self.tenant, [id]))[0]
        if job is None or not job.errors:
            return []
        return failure_records(job, await self._backend.history(self.tenant, id))

    async def events(
        self, since: str | int = "now", *, follow: bool = True
    ) -> AsyncIterator[Event]:
        """This tenant's events after a position, or from the "beginning" or "now" on; then live.

        Without `follow` it ends with the newest there is.

        `since` is "beginning", "now" or the position of the last event that you have.
        """
        follow, position = plain_switch("follow", follow), position_named(since)
        if position is None:
            position = await self._backend.last_position()
        async for event in self._backend.events(self.tenant, position, follow=follow):
            yield event

    # Keeping house

    async def vacuum(self) -> VacuumReport:
        """Deletes what has outlived `log_retention_seconds` and nobody can need."""
        return await self._backend.vacuum()

    async def repair(self) -> IndexReport:
        """Makes the indexes what the jobs say; where they can't differ there is nothing to do."""
        if isinstance(self._backend, Indexed):
            return await self._backend.repair()
        return IndexReport()

    async def workers(self) -> list[WorkerRecord]:
        """The workers that have registered, of all tenants; those long not seen are dead."""
        return await self._backend.workers()

    async def register(self, record: WorkerRecord) -> None:
        """Shows a worker in the list of workers, or refreshes what is shown.

        `record` is what it says of itself.
        """
        await self._backend.register(readable_worker(record))

    async def unregister(self, worker: str) -> None:
        """Takes the worker named `worker` off the list."""
        await self._backend.unregister(plain_text("worker", worker))

    async def elect(self, role: str, candidate: str, seconds: float) -> bool:
        """Whether the candidate leads for that long; one of many does a role's work.

        `role` names the work, `candidate` who would do it, `seconds` for how long.
        """
        role, candidate = check_name("role", role), check_text("candidate", candidate)
        return await self._backend.elect(role, candidate, plain_seconds("seconds", seconds))

    async def move_consumer(self, name: str, position: int) -> None:
        """Registers a reader of events, or moves it on: vacuum keeps what it has yet to read.

        `name` is the reader's, `position` that of the last event it has read.
        """
        name = check_name("consumer", name)
        position = plain_position("position", position, "an event's position")
        await self._backend.execute(commands.MoveConsumer(SYSTEM_TENANT, name, position))

    async def drop_consumer(self, name: str) -> None:
        """Forgets the reader called `name`: vacuum need not wait for it any more."""
        name = check_name("consumer", name)
        await self._backend.execute(commands.DropConsumer(SYSTEM_TENANT, name))

    async def _opened(self, receipt: Receipt) -> Receipt:
        """The receipt of a completed job, with its result decoded."""
        if receipt.result is ABSENT and receipt.result_key is None:
            # Let go to stay slim: the job's own record finds it again.
            job = await self.get(receipt.id)
            return replace(receipt, result=job and job.result)
        return await self._envelopes.open_receipt(receipt)
