"""The queue: everything a program does with jobs, the same on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from msgspec import Raw

from penstock.client.calls import Calls
from penstock.client.envelopes import Envelopes
from penstock.client.keepalive import keep_alive
from penstock.client.newjob import NewJob, check_name, check_seconds, epoch_seconds, submission
from penstock.errors import InvalidInput, InvalidJob, PenstockError
from penstock.kernel.commands import (
    Ack,
    Archive,
    Beat,
    Cancel,
    Claim,
    Command,
    Configure,
    DropConsumer,
    Enqueue,
    Expire,
    Failure,
    Heartbeat,
    MoveConsumer,
    Nack,
    Pause,
    Receipt,
    Release,
    Replay,
    Resume,
    Return,
    Submission,
    Success,
    Unarchive,
)
from penstock.kernel.events import SYSTEM_TENANT, Event, JobEvent
from penstock.kernel.job import (
    ABSENT,
    DEFAULT_ATTEMPTS,
    DEFAULT_CODEC,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TENANT,
    DEFAULT_TIMEOUT_SECONDS,
    Job,
    Lease,
    State,
)
from penstock.kernel.retry import RetryPolicy
from penstock.kernel.settings import Settings
from penstock.ports.backend import Backend, Capabilities, Filter, Stats, VacuumReport
from penstock.runtime.services import Services
from penstock.wire.codecs import Codecs

LEASE_SECONDS: Final = 30.0
INLINE_BYTES_MAX: Final = 256 * 1024
ITEMS_PER_CALL_MAX: Final = 100_000

Value = TypeVar("Value")


class Queue:
    """A queue as one tenant sees it. Made by `penstock.open`; use it with `async with`."""

    def __init__(
        self,
        backend: Backend,
        *,
        tenant: str = DEFAULT_TENANT,
        services: Services | None = None,
        codecs: Codecs | None = None,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        offload: bool = False,
        settings: dict[str, float] | None = None,
    ) -> None:
        check_name("tenant", tenant)
        self.tenant = tenant
        self._backend = backend
        self._services = services or Services()
        self._envelopes = Envelopes(
            backend,
            codecs or Codecs(),
            inline_bytes_max=inline_bytes_max,
            offload=offload,
        )
        self._calls = Calls(backend, tenant, self._envelopes)
        self._settings = settings or {}

    def __repr__(self) -> str:
        return f"<Queue {self._backend.capabilities.backend} tenant {self.tenant!r}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Opens the store, makes the queue if it is new, loads what is there."""
        await self._backend.start()
        if self._settings:
            try:
                await self.configure(**self._settings)
            except BaseException:
                await self._backend.stop()
                raise

    async def close(self) -> None:
        """Finishes what was accepted. Leases that are still held run out by themselves."""
        await self._backend.stop()

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    @property
    def settings(self) -> Settings:
        return self._backend.settings

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
    ) -> Receipt:
        """Adds a job. When this returns it is durable, or was there before: see the receipt."""
        new = NewJob(
            type, payload, queue, id, key, unique_seconds, priority, delay_seconds, run_at,
            max_attempts, retry, timeout_seconds, meta, trace, codec,
        )  # fmt: skip
        prepared = await self._prepare(new)
        outcome = (await self._backend.execute(Enqueue(self.tenant, [prepared])))[0]
        return await self._receipt(_raised(outcome))

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Receipt | PenstockError]:
        """Adds many jobs with one commit, in order; one outcome each."""
        prepared = [await self._prepare(new) for new in jobs]
        _check_count("enqueue_many", len(prepared))
        if not prepared:
            return []
        outcomes = await self._backend.execute(Enqueue(self.tenant, prepared))
        return [
            outcome if isinstance(outcome, PenstockError) else await self._receipt(outcome)
            for outcome in outcomes
        ]

    async def call(
        self, type: str, payload: Any = None, *, timeout_seconds: float = 30.0, **options: Any
    ) -> Any:
        """Enqueues, waits for the end and returns the result: request and response.

        Raises `JobFailed`, `JobCancelled` or `CallTimeout`. A cached result comes at once; a
        duplicate that is under way is joined. `options` are those of `enqueue`.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        id = options.pop("id", None) or self._services.new_id()
        return await self._calls.call(
            id, lambda: self.enqueue(type, payload, id=id, **options), timeout_seconds
        )

    # Working on jobs

    async def claim(
        self,
        n: int = 1,
        *,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        worker: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        wait_seconds: float = 0.0,
    ) -> list[Job]:
        """Takes up to n due jobs, in order, each with a lease of its own; waits for the first."""
        if n < 1:
            raise InvalidInput(f"claim({n}): ask for at least one job")
        _check_count("claim", n)
        check_seconds("lease_seconds", lease_seconds)
        check_seconds("wait_seconds", wait_seconds)
        command = Claim(
            self.tenant,
            self._services.new_secret(),
            n,
            lease_seconds,
            _names("queues", queues),
            _names("types", types),
            worker,
        )
        until = self._services.clock.elapsed() + wait_seconds
        while True:
            jobs = await self._backend.execute(command)
            rest = until - self._services.clock.elapsed()
            if jobs or rest <= 0:
                return await self._envelopes.open_all(jobs)
            await self._backend.wait_ready(self.tenant, command.queues, command.types, rest)

    @overload
    async def heartbeat(
        self, jobs: Job, *, progress: float | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> float: ...
    @overload
    async def heartbeat(
        self,
        jobs: Sequence[Job],
        *,
        progress: float | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> list[float | PenstockError]: ...
    async def heartbeat(
        self,
        jobs: Job | Sequence[Job],
        *,
        progress: float | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Any:
        """Extends leases and says how far the work is; answers each new `lease_until`."""
        check_seconds("lease_seconds", lease_seconds)
        many = _many(jobs)
        items = [Beat(job.id, _lease(job), lease_seconds, progress) for job in many]
        outcomes = await self._settle(Heartbeat(self.tenant, items), items)
        for job, outcome in zip(many, outcomes, strict=True):
            if isinstance(outcome, float):
                job.lease_until = outcome
        return _one_or_all(jobs, outcomes)

    @overload
    async def ack(self, jobs: Job, result: Any = None, *, codec: str | None = None) -> None: ...
    @overload
    async def ack(
        self, jobs: Sequence[Job], result: Any = None, *, codec: str | None = None
    ) -> list[None | PenstockError]: ...
    async def ack(
        self, jobs: Job | Sequence[Job], result: Any = None, *, codec: str | None = None
    ) -> Any:
        """Completes jobs, each with the result (of a list of jobs, the same for all)."""
        sealed = self._envelopes.seal("result", result, codec)
        items = [await self._success(job, result, codec, sealed) for job in _many(jobs)]
        return _one_or_all(jobs, await self._settle(Ack(self.tenant, items), items))

    @overload
    async def nack(
        self,
        jobs: Job,
        error: object = "",
        *,
        retry: bool = True,
        kind: str = "error",
        delay_seconds: float | None = None,
    ) -> State: ...
    @overload
    async def nack(
        self,
        jobs: Sequence[Job],
        error: object = "",
        *,
        retry: bool = True,
        kind: str = "error",
        delay_seconds: float | None = None,
    ) -> list[State | PenstockError]: ...
    async def nack(
        self,
        jobs: Job | Sequence[Job],
        error: object = "",
        *,
        retry: bool = True,
        kind: str = "error",
        delay_seconds: float | None = None,
    ) -> Any:
        """Says that an attempt failed; it is tried again unless that makes no sense any more."""
        if delay_seconds is not None:
            check_seconds("delay_seconds", delay_seconds)
        message = str(error) or builtin_type(error).__name__ if error else ""
        items = [
            Failure(job.id, _lease(job), message, kind, retry, delay_seconds) for job in _many(jobs)
        ]
        return _one_or_all(jobs, await self._settle(Nack(self.tenant, items), items))

    @overload
    async def release(self, jobs: Job) -> None: ...
    @overload
    async def release(self, jobs: Sequence[Job]) -> list[None | PenstockError]: ...
    async def release(self, jobs: Job | Sequence[Job]) -> Any:
        """Gives leases back: the jobs are due at once for others, and no failure is counted."""
        items = [Return(job.id, _lease(job)) for job in _many(jobs)]
        return _one_or_all(jobs, await self._settle(Release(self.tenant, items), items))

    @overload
    async def snooze(self, jobs: Job, until: float | datetime) -> None: ...
    @overload
    async def snooze(
        self, jobs: Sequence[Job], until: float | datetime
    ) -> list[None | PenstockError]: ...
    async def snooze(self, jobs: Job | Sequence[Job], until: float | datetime) -> Any:
        """Gives leases back to come again later; no failure is counted."""
        at = epoch_seconds("until", until)
        items = [Return(job.id, _lease(job), at) for job in _many(jobs)]
        return _one_or_all(jobs, await self._settle(Release(self.tenant, items), items))

    def keep_alive(
        self, job: Job, *, lease_seconds: float = LEASE_SECONDS
    ) -> AbstractAsyncContextManager[Job]:
        """Heartbeats while the body runs; cancels it, and raises why, when the lease is lost."""
        return keep_alive(self.heartbeat, job, lease_seconds, self._services.clock)

    # Managing jobs

    @overload
    async def cancel(self, ids: str) -> str: ...
    @overload
    async def cancel(self, ids: Sequence[str]) -> list[str]: ...
    async def cancel(self, ids: str | Sequence[str]) -> Any:
        """Cancels; answers `cancelled`, `not_found` or the terminal state that it met."""
        many = _many_ids(ids)
        outcomes = await self._settle(Cancel(self.tenant, many), many)
        return _one_or_all(ids, outcomes)

    @overload
    async def replay(self, ids: str) -> State: ...
    @overload
    async def replay(self, ids: Sequence[str]) -> list[State | PenstockError]: ...
    async def replay(self, ids: str | Sequence[str]) -> Any:
        """Opens failed or cancelled jobs again, due now and with their failures forgotten."""
        many = _many_ids(ids)
        return _one_or_all(ids, await self._settle(Replay(self.tenant, many), many))

    @overload
    async def archive(self, ids: str) -> None: ...
    @overload
    async def archive(self, ids: Sequence[str]) -> list[None | PenstockError]: ...
    async def archive(self, ids: str | Sequence[str]) -> Any:
        """Puts ended jobs out of sight; they leave for good after `archive_ttl_seconds`."""
        many = _many_ids(ids)
        return _one_or_all(ids, await self._settle(Archive(self.tenant, many), many))

    @overload
    async def unarchive(self, ids: str) -> None: ...
    @overload
    async def unarchive(self, ids: Sequence[str]) -> list[None | PenstockError]: ...
    async def unarchive(self, ids: str | Sequence[str]) -> Any:
        many = _many_ids(ids)
        return _one_or_all(ids, await self._settle(Unarchive(self.tenant, many), many))

    async def pause(self, queue: str = DEFAULT_QUEUE) -> None:
        """No job of this queue is claimed any more; those that run go on."""
        check_name("queue", queue)
        await self._backend.execute(Pause(self.tenant, queue))

    async def resume(self, queue: str = DEFAULT_QUEUE) -> None:
        check_name("queue", queue)
        await self._backend.execute(Resume(self.tenant, queue))

    async def expire(self) -> int:
        """Takes back every dead lease now; answers how many. Claims do the same on their way."""
        return await self._backend.execute(Expire(self.tenant))

    # Looking

    @overload
    async def get(self, ids: str) -> Job | None: ...
    @overload
    async def get(self, ids: Sequence[str]) -> list[Job | None]: ...
    async def get(self, ids: str | Sequence[str]) -> Any:
        """Jobs by id; None for one that this tenant does not have, or no longer."""
        many = _many_ids(ids)
        jobs = await self._backend.get(self.tenant, many) if many else []
        seen = [None if job is None else await self._envelopes.open(job) for job in jobs]
        return _one_or_all(ids, seen)

    async def jobs(
        self,
        *,
        state: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        archived: bool = False,
    ) -> AsyncIterator[Job]:
        """Jobs of the live state as of now, oldest first. Completed ones come without payload."""
        wanted = Filter(None if state is None else _state(state), queue, type, archived)
        async for job in self._backend.jobs(self.tenant, wanted):
            yield self._envelopes.open_inline(job)

    async def stats(self) -> Stats:
        return await self._backend.stats(self.tenant)

    async def history(self, id: str) -> list[JobEvent]:
        """Every transition of a job, oldest first; empty if it is unknown."""
        return await self._backend.history(self.tenant, id)

    async def events(self, since: str | int = "now") -> AsyncIterator[Event]:
        """This tenant's events after a position, or from the "beginning" or "now" on; then live."""
        if since == "beginning":
            position = 0
        elif since == "now":
            position = await self._backend.last_position()
        elif isinstance(since, int):
            position = since
        else:
            raise InvalidInput(f"events(since={since!r}): 'beginning', 'now' or a position")
        async for event in self._backend.events(self.tenant, position):
            yield event

    # Keeping house

    async def configure(self, **changes: float) -> Settings:
        """Changes settings of the whole queue, for everybody who uses it."""
        unknown = set(changes) - set(Settings.__struct_fields__)
        if unknown:
            raise InvalidJob(min(unknown), changes[min(unknown)], "no such setting")
        return await self._backend.execute(Configure(SYSTEM_TENANT, changes))

    async def vacuum(self) -> VacuumReport:
        """Deletes what has outlived `log_retention_seconds` and nobody can need."""
        return await self._backend.vacuum()

    async def move_consumer(self, name: str, position: int) -> None:
        """Registers a reader of events, or moves it on: vacuum keeps what it has yet to read."""
        check_name("consumer", name)
        await self._backend.execute(MoveConsumer(SYSTEM_TENANT, name, position))

    async def drop_consumer(self, name: str) -> None:
        await self._backend.execute(DropConsumer(SYSTEM_TENANT, name))

    async def _prepare(self, new: NewJob) -> Submission:
        id = self._services.new_id() if new.id is None else new.id
        sealed = self._envelopes.seal("payload", new.payload, new.codec)
        if sealed is not None:
            return submission(new, id, *sealed, None)
        # Checked before anything large is stored.
        submission(new, id, ABSENT, DEFAULT_CODEC, None)
        codec, key = await self._envelopes.keep(id, new.payload, new.codec)
        return submission(new, id, ABSENT, codec, key)

    async def _success(
        self, job: Job, result: Any, codec: str | None, sealed: tuple[Raw, str] | None
    ) -> Success:
        if sealed is not None:
            return Success(job.id, _lease(job), *sealed)
        name, key = await self._envelopes.keep(job.id, result, codec)
        return Success(job.id, _lease(job), ABSENT, name, key)

    async def _receipt(self, receipt: Receipt) -> Receipt:
        if receipt.status != "completed":
            return receipt
        if receipt.result is ABSENT and receipt.result_key is None:
            # Let go to stay slim: the job's own record finds it again.
            job = await self.get(receipt.id)
            return Receipt(receipt.id, "completed", receipt.state, job and job.result)
        return await self._envelopes.open_receipt(receipt)

    async def _settle(self, command: Command[Value], items: Sequence[object]) -> Any:
        """An empty list does nothing, not even a look at the store."""
        _check_count(builtin_type(command).__name__.lower(), len(items))
        return await self._backend.execute(command) if items else []


builtin_type = type


def _raised(outcome: Value | PenstockError) -> Value:
    if isinstance(outcome, PenstockError):
        raise outcome
    return outcome


def _one_or_all(asked: object, outcomes: list[Any]) -> Any:
    """One job raises or returns its own; a list returns one outcome per item."""
    return _raised(outcomes[0]) if isinstance(asked, Job | str) else outcomes


def _many(jobs: Job | Sequence[Job]) -> Sequence[Job]:
    return [jobs] if isinstance(jobs, Job) else jobs


def _many_ids(ids: str | Sequence[str]) -> list[str]:
    many = [ids] if isinstance(ids, str) else list(ids)
    for id in many:
        if not isinstance(id, str):
            raise InvalidJob("id", id, "it must be a string")
    return many


def _lease(job: Job) -> Lease:
    if job.lease is None:
        raise InvalidInput(f"job {job.id!r} carries no lease: pass a job that `claim` returned")
    return job.lease


def _names(field: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise InvalidInput(f"{field}={names!r}: pass a list of names")
    for name in names:
        check_name(field, name)
    return tuple(names)


def _state(name: str) -> State:
    try:
        return State(name)
    except ValueError:
        raise InvalidInput(f"state={name!r}: one of {', '.join(State)}") from None


def _check_count(call: str, count: int) -> None:
    if count > ITEMS_PER_CALL_MAX:
        raise InvalidInput(f"{call}: {count:,} items, at most {ITEMS_PER_CALL_MAX:,} at once")
