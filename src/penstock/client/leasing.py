"""Working on jobs: claiming them, and ending what was claimed in one way or another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Final, overload

from msgspec import Raw

from penstock.client.arguments import (
    check_count,
    describe,
    lease_of,
    many_jobs,
    name_tuple,
    one_or_all,
)
from penstock.client.handle import Handle
from penstock.client.keepalive import keep_alive
from penstock.client.newjob import check_number, check_seconds, check_text, epoch_seconds
from penstock.errors import InvalidInput, PenstockError
from penstock.kernel import commands
from penstock.kernel.commands import Success
from penstock.kernel.job import ABSENT, Job, State
from penstock.ports.backend import Announcing, CancelledListener

LEASE_SECONDS: Final = 30.0


class Leasing(Handle):
    """A lease is yours until it runs out; `ack`, `nack`, `release` and `snooze` end it."""

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
        if type(n) is not int or n < 1:
            raise InvalidInput(f"claim({n}): ask for at least one job")
        check_count("claim", n)
        check_seconds("lease_seconds", lease_seconds)
        check_seconds("wait_seconds", wait_seconds)
        if worker is not None:
            check_text("worker", worker)
        command = commands.Claim(
            self.tenant,
            self._services.new_secret(),
            n,
            lease_seconds,
            name_tuple("queues", queues),
            name_tuple("types", types),
            worker,
        )
        until = self._services.clock.elapsed() + wait_seconds
        while True:
            jobs = await self._backend.execute(command)
            rest = until - self._services.clock.elapsed()
            if jobs or rest <= 0:
                return await self._envelopes.open_all(jobs)
            await self._backend.wait_ready(self.tenant, command.queues, command.types, rest)

    async def wait_for_work(
        self,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        *,
        timeout_seconds: float,
    ) -> None:
        """Returns when a claim may find something, or when the time is up."""
        check_seconds("timeout_seconds", timeout_seconds)
        await self._backend.wait_ready(
            self.tenant,
            name_tuple("queues", queues),
            name_tuple("types", types),
            timeout_seconds,
        )

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
        if progress is not None:
            progress = float(check_number("progress", progress))
        many = many_jobs(jobs)
        items = [commands.Beat(job.id, lease_of(job), lease_seconds, progress) for job in many]
        outcomes = await self._settle(commands.Heartbeat(self.tenant, items), items)
        for job, outcome in zip(many, outcomes, strict=True):
            if isinstance(outcome, float):
                job.lease_until = outcome
        return one_or_all(jobs, outcomes)

    @overload
    async def ack(
        self,
        jobs: Job,
        result: Any = None,
        *,
        codec: str | None = None,
    ) -> None: ...
    @overload
    async def ack(
        self,
        jobs: Sequence[Job],
        result: Any = None,
        *,
        results: Sequence[Any] | None = None,
        codec: str | None = None,
    ) -> list[PenstockError | None]: ...
    async def ack(
        self,
        jobs: Job | Sequence[Job],
        result: Any = None,
        *,
        results: Sequence[Any] | None = None,
        codec: str | None = None,
    ) -> Any:
        """Completes jobs. Of a list: with one result for all, or with one of `results` each."""
        if results is not None:
            return await self._ack_each(many_jobs(jobs), results, codec)
        sealed = self._envelopes.seal("result", result, codec)
        items = [await self._success(job, result, codec, sealed) for job in many_jobs(jobs)]
        return one_or_all(jobs, await self._settle(commands.Ack(self.tenant, items), items))

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
        check_text("kind", kind)
        message = describe(error)
        items = [
            commands.Failure(job.id, lease_of(job), message, kind, retry, delay_seconds)
            for job in many_jobs(jobs)
        ]
        return one_or_all(jobs, await self._settle(commands.Nack(self.tenant, items), items))

    @overload
    async def release(self, jobs: Job) -> None: ...
    @overload
    async def release(self, jobs: Sequence[Job]) -> list[PenstockError | None]: ...
    async def release(self, jobs: Job | Sequence[Job]) -> Any:
        """Gives leases back: the jobs are due at once for others, and no failure is counted."""
        items = [commands.Return(job.id, lease_of(job)) for job in many_jobs(jobs)]
        return one_or_all(jobs, await self._settle(commands.Release(self.tenant, items), items))

    @overload
    async def snooze(self, jobs: Job, until: float | datetime) -> None: ...
    @overload
    async def snooze(
        self, jobs: Sequence[Job], until: float | datetime
    ) -> list[PenstockError | None]: ...
    async def snooze(self, jobs: Job | Sequence[Job], until: float | datetime) -> Any:
        """Gives leases back to come again later; no failure is counted."""
        at = epoch_seconds("until", until)
        items = [commands.Return(job.id, lease_of(job), at) for job in many_jobs(jobs)]
        return one_or_all(jobs, await self._settle(commands.Release(self.tenant, items), items))

    def keep_alive(
        self, job: Job, *, lease_seconds: float = LEASE_SECONDS
    ) -> AbstractAsyncContextManager[Job]:
        """Heartbeats while the body runs; cancels it, and raises why, when the lease is lost."""
        return keep_alive(self.heartbeat, job, lease_seconds, self._services.clock)

    def watch_cancelled(self, tell: CancelledListener) -> AbstractContextManager[None]:
        """While entered, `tell` hears what is cancelled as soon as this process knows of it.

        Of what others cancel it hears at once while `following`, and at any heartbeat.
        """
        backend = self._backend
        if isinstance(backend, Announcing):
            return backend.watch_cancelled(self.tenant, tell)
        return nullcontext()

    def following(self) -> AbstractContextManager[None]:
        """While entered, others' commits are taken in as they happen, where the store pushes.

        Where it does not this does nothing: nothing is polled for it.
        """
        backend = self._backend
        if backend.capabilities.push and isinstance(backend, Announcing):
            return backend.following()
        return nullcontext()

    async def _ack_each(
        self, jobs: Sequence[Job], results: Sequence[Any], codec: str | None
    ) -> list[PenstockError | None]:
        """A result that can't be stored is its own job's problem; the others complete."""
        prepared: list[Success | PenstockError] = []
        for job, result in zip(jobs, results, strict=True):
            try:
                sealed = self._envelopes.seal("result", result, codec)
                prepared.append(await self._success(job, result, codec, sealed))
            except InvalidInput as error:
                prepared.append(error)
        items = [item for item in prepared if isinstance(item, Success)]
        answers = iter(await self._settle(commands.Ack(self.tenant, items), items))
        return [next(answers) if isinstance(item, Success) else item for item in prepared]

    async def _success(
        self, job: Job, result: Any, codec: str | None, sealed: tuple[Raw, str] | None
    ) -> Success:
        if sealed is not None:
            return Success(job.id, lease_of(job), *sealed)
        name, key = await self._envelopes.keep(job.id, result, codec)
        return Success(job.id, lease_of(job), ABSENT, name, key)
