"""The queue: everything a program does with jobs, the same on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar, overload

from msgspec.structs import replace

from penstock.client.arguments import (
    check_count,
    many_ids,
    one_or_all,
    raised,
    state_named,
)
from penstock.client.calls import Calls
from penstock.client.importing import Importing
from penstock.client.leasing import Leasing
from penstock.client.newjob import NewJob, check_name, check_seconds, submission
from penstock.errors import InvalidInput, PenstockError, Unsupported
from penstock.kernel import commands
from penstock.kernel.commands import Receipt, Submission
from penstock.kernel.events import SYSTEM_TENANT, Event, JobEvent
from penstock.kernel.job import (
    ABSENT,
    DEFAULT_ATTEMPTS,
    DEFAULT_CODEC,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
    Job,
    State,
)
from penstock.kernel.retry import RetryPolicy
from penstock.ports.backend import (
    Filter,
    Indexed,
    IndexReport,
    Stats,
    Transactional,
    VacuumReport,
    WorkerRecord,
)

Value = TypeVar("Value")


class Queue(Leasing, Importing):
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
        unique_seconds: float = 0.0,
        priority: int = DEFAULT_PRIORITY,
        delay_seconds: float = 0.0,
        run_at: float | datetime | None = None,
        max_attempts: int = DEFAULT_ATTEMPTS,
        retry: RetryPolicy | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        meta: dict[str, Any] | None = None,
        trace: str | None = None,
        codec: str | None = None,
        connection: Any = None,
    ) -> Receipt:
        """Adds a job. When this returns it is durable, or was there before: see the receipt.

        With a `connection` of yours, in a transaction, it becomes true when that commits
        (PostgreSQL).
        """
        new = NewJob(
            type, payload, queue, id, key, unique_seconds, priority, delay_seconds, run_at,
            max_attempts, retry, timeout_seconds, meta, trace, codec,
        )  # fmt: skip
        prepared = self._prepared(new) or await self._offloaded(new)
        receipt = raised((await self._enqueued([prepared], connection))[0])
        return receipt if receipt.status != "completed" else await self._opened(receipt)

    async def enqueue_many(
        self, jobs: Iterable[NewJob], *, connection: Any = None
    ) -> list[Receipt | PenstockError]:
        """Adds many jobs with one commit, in order; one outcome each. `connection`: as above."""
        prepared = [self._prepared(new) or await self._offloaded(new) for new in jobs]
        check_count("enqueue_many", len(prepared))
        if not prepared:
            return []
        outcomes = await self._enqueued(prepared, connection)
        return [
            await self._opened(outcome)
            if isinstance(outcome, Receipt) and outcome.status == "completed"
            else outcome
            for outcome in outcomes
        ]

    async def call(
        self, type: str, payload: Any = None, *, timeout_seconds: float = 30.0, **options: Any
    ) -> Any:
        """Enqueues, waits for the end and returns the result: request and response.

        Raises `JobFailed`, `JobCancelled` or `CallTimeout`. A cached result comes at once; a
        duplicate that is under way is joined. `options` are those of `enqueue`.
        """
        id = options.pop("id", None) or self.new_id()
        return await self.answer(
            id, lambda: self.enqueue(type, payload, id=id, **options), timeout_seconds
        )

    async def answer(
        self, id: str, enqueue: Callable[[], Awaitable[Receipt]], timeout_seconds: float
    ) -> Any:
        """The result of the job that `enqueue` adds under this id: `call` with a way of its own."""
        check_seconds("timeout_seconds", timeout_seconds)
        calls = Calls(self._backend, self.tenant, self._envelopes)
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
        """Cancels; answers `cancelled`, `not_found` or the terminal state that it met."""
        many = many_ids(ids)
        outcomes = await self._settle(commands.Cancel(self.tenant, many), many)
        return one_or_all(ids, outcomes)

    @overload
    async def replay(self, ids: str) -> State: ...
    @overload
    async def replay(self, ids: list[str]) -> list[State | PenstockError]: ...
    async def replay(self, ids: str | list[str]) -> Any:
        """Opens failed or cancelled jobs again, due now and with their failures forgotten."""
        many = many_ids(ids)
        return one_or_all(ids, await self._settle(commands.Replay(self.tenant, many), many))

    @overload
    async def archive(self, ids: str) -> None: ...
    @overload
    async def archive(self, ids: list[str]) -> list[PenstockError | None]: ...
    async def archive(self, ids: str | list[str]) -> Any:
        """Puts ended jobs out of sight; they leave for good after `archive_ttl_seconds`."""
        many = many_ids(ids)
        return one_or_all(ids, await self._settle(commands.Archive(self.tenant, many), many))

    @overload
    async def unarchive(self, ids: str) -> None: ...
    @overload
    async def unarchive(self, ids: list[str]) -> list[PenstockError | None]: ...
    async def unarchive(self, ids: str | list[str]) -> Any:
        many = many_ids(ids)
        return one_or_all(ids, await self._settle(commands.Unarchive(self.tenant, many), many))

    async def pause(self, queue: str = DEFAULT_QUEUE) -> None:
        """No job of this queue is claimed any more; those that run go on."""
        check_name("queue", queue)
        await self._backend.execute(commands.Pause(self.tenant, queue))

    async def resume(self, queue: str = DEFAULT_QUEUE) -> None:
        check_name("queue", queue)
        await self._backend.execute(commands.Resume(self.tenant, queue))

    async def expire(self) -> int:
        """Takes back every dead lease now; answers how many. Claims do the same on their way."""
        return await self._backend.execute(commands.Expire(self.tenant))

    # Looking

    @overload
    async def get(self, ids: str) -> Job | None: ...
    @overload
    async def get(self, ids: list[str]) -> list[Job | None]: ...
    async def get(self, ids: str | list[str]) -> Any:
        """Jobs by id; None for one that this tenant does not have, or no longer."""
        many = many_ids(ids)
        jobs = await self._backend.get(self.tenant, many) if many else []
        seen = [None if job is None else await self._envelopes.open(job) for job in jobs]
        return one_or_all(ids, seen)

    async def jobs(
        self,
        *,
        state: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        archived: bool = False,
    ) -> AsyncIterator[Job]:
        """Jobs of the live state as of now, oldest first. Completed ones come without payload."""
        wanted = Filter(None if state is None else state_named(state), queue, type, archived)
        async for job in self._backend.jobs(self.tenant, wanted):
            yield self._envelopes.open_inline(job)

    async def stats(self) -> Stats:
        return await self._backend.stats(self.tenant)

    async def history(self, id: str) -> list[JobEvent]:
        """Every transition of a job, oldest first; empty if it is unknown."""
        return await self._backend.history(self.tenant, id)

    async def events(
        self, since: str | int = "now", *, follow: bool = True
    ) -> AsyncIterator[Event]:
        """This tenant's events after a position, or from the "beginning" or "now" on; then live.

        Without `follow` it ends with the newest there is.
        """
        if since == "beginning":
            position = 0
        elif since == "now":
            position = await self._backend.last_position()
        elif isinstance(since, int):
            position = since
        else:
            raise InvalidInput(f"events(since={since!r}): 'beginning', 'now' or a position")
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
        await self._backend.register(record)

    async def unregister(self, worker: str) -> None:
        await self._backend.unregister(worker)

    async def elect(self, role: str, candidate: str, seconds: float) -> bool:
        """Whether the candidate leads for that long; one of many does a role's work."""
        return await self._backend.elect(role, candidate, seconds)

    async def move_consumer(self, name: str, position: int) -> None:
        """Registers a reader of events, or moves it on: vacuum keeps what it has yet to read."""
        check_name("consumer", name)
        if type(position) is not int or position < 0:
            raise InvalidInput(f"move_consumer(position={position!r}): an event's position")
        await self._backend.execute(commands.MoveConsumer(SYSTEM_TENANT, name, position))

    async def drop_consumer(self, name: str) -> None:
        await self._backend.execute(commands.DropConsumer(SYSTEM_TENANT, name))

    async def _enqueued(
        self, prepared: list[Submission], connection: Any
    ) -> list[commands.Outcome[Receipt]]:
        command = commands.Enqueue(self.tenant, prepared)
        if connection is None:
            return await self._backend.execute(command)
        if not isinstance(self._backend, Transactional):
            backend = self.capabilities.backend
            raise Unsupported("enqueuing in a transaction of yours", backend)
        return await self._backend.execute_within(connection, command)

    def _prepared(self, new: NewJob) -> Submission | None:
        """The job in the form that the kernel takes; None if it is too large to go inline."""
        id = self._services.new_id() if new.id is None else new.id
        sealed = self._envelopes.seal("payload", new.payload, new.codec)
        return None if sealed is None else submission(new, id, *sealed, None)

    async def _offloaded(self, new: NewJob) -> Submission:
        id = self._services.new_id() if new.id is None else new.id
        # Checked before anything large is stored.
        submission(new, id, ABSENT, DEFAULT_CODEC, None)
        codec, key = await self._envelopes.keep(id, new.payload, new.codec)
        return submission(new, id, ABSENT, codec, key)

    async def _opened(self, receipt: Receipt) -> Receipt:
        """The receipt of a completed job, with its result decoded."""
        if receipt.result is ABSENT and receipt.result_key is None:
            # Let go to stay slim: the job's own record finds it again.
            job = await self.get(receipt.id)
            return replace(receipt, result=job and job.result)
        return await self._envelopes.open_receipt(receipt)
