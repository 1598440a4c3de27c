"""Working on jobs: claiming them, and ending what was claimed in one way or another."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final, overload

from penstock.client.arguments import (
    check_count,
    described_traceback,
    lease_of,
    many_jobs,
    many_results,
    name_tuple,
    one_job,
    one_or_all,
    progress_message,
)
from penstock.client.envelopes import JobOf, Payload, check_type, typed
from penstock.client.handle import Handle
from penstock.client.keepalive import keep_alive
from penstock.client.newjob import check_name, check_text, epoch_seconds
from penstock.errors import InvalidInput, OutcomeUnknown, PenstockError, StoreRefused
from penstock.kernel import commands
from penstock.kernel.commands import Success, Verdict
from penstock.kernel.events import UNDECODABLE
from penstock.kernel.job import ABSENT, Job, State
from penstock.kernel.plain import (
    WHOLE_MAX,
    describe,
    plain_number,
    plain_seconds,
    plain_switch,
    plain_whole,
)
from penstock.wire.codecs import Undecodable

logger = logging.getLogger(__name__)

LEASE_SECONDS: Final = 30.0
UNDECODABLE_CLAIMS_MAX: Final = 100
"""How often one call claims again because nothing that it got can be decoded here."""


class Leasing(Handle):
    """A lease is yours until it runs out; `ack`, `nack`, `release` and `snooze` end it."""

    @overload
    async def claim(
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
    ) -> list[Job]: ...
    @overload
    async def claim(
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
    async def claim(
        self,
        n: int = 1,
        *,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        worker: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        wait_seconds: float = 0.0,
        operation: str | None = None,
        payload: Any = None,
    ) -> Any:
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
        n = plain_whole("n", n, 1, WHOLE_MAX, "ask for at least one job")
        check_count("claim", n)
        if payload is not None:
            check_type(payload)
        wait_seconds = plain_seconds("wait_seconds", wait_seconds)
        if operation is not None:
            operation = check_name("operation", operation)
        command = commands.Claim(
            self.tenant,
            operation or self._services.new_secret(),
            n,
            plain_seconds("lease_seconds", lease_seconds),
            name_tuple("queues", queues),
            name_tuple("types", types),
            None if worker is None else check_text("worker", worker),
        )
        until = self._services.clock.elapsed() + wait_seconds
        while True:
            try:
                jobs = await self._take(command, payload, is_named=operation is not None)
            except OutcomeUnknown as error:
                raise self._unknown(command, error, command.operation) from error
            rest = until - self._services.clock.elapsed()
            if jobs or rest <= 0:
                return jobs
            await self._backend.wait_ready(self.tenant, command.queues, command.types, rest)

    async def _take(self, command: commands.Claim, payload: Any, *, is_named: bool) -> list[Job]:
        """One claim. Whatever ends this but its return gives back what was claimed.

        A job that can't be decoded here fails alone, and the others are handed out. Where none is
        left it claims again: what waits behind it is due, too.
        """
        for _ in range(UNDECODABLE_CLAIMS_MAX):
            async with self._backend.claimed(command, keep_unknown=is_named) as jobs:
                opened = await self._envelopes.open_all(jobs)
                if payload is not None:
                    opened = [typed(job, payload) for job in opened]
                good = [job for job in opened if type(job.payload) is not Undecodable]
                if len(good) < len(opened):
                    await self._fail_undecodable(opened)
            if good or not opened:
                return good
        return []

    async def _fail_undecodable(self, jobs: Sequence[Job]) -> None:
        items = [
            commands.Failure(job.id, lease_of(job), job.payload.reason, UNDECODABLE)
            for job in jobs
            if isinstance(job.payload, Undecodable)
        ]
        for item in items:
            logger.warning("job %s can't be decoded here: %s", item.id, item.error)
        await self._backend.execute(commands.Nack(self.tenant, items))

    async def wait_for_work(
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
        timeout_seconds = plain_seconds("timeout_seconds", timeout_seconds)
        await self._backend.wait_ready(
            self.tenant,
            name_tuple("queues", queues),
            name_tuple("types", types),
            timeout_seconds,
        )

    @overload
    async def heartbeat(
        self,
        jobs: Job,
        *,
        progress: float | None = None,
        message: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> float: ...
    @overload
    async def heartbeat(
        self,
        jobs: Sequence[Job],
        *,
        progress: float | None = None,
        message: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> list[float | PenstockError]: ...
    async def heartbeat(
        self,
        jobs: Job | Sequence[Job],
        *,
        progress: float | None = None,
        message: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Any:
        """Extends leases and says how far the work is; answers each new `lease_until`.

        `progress` is a number from 0 to 1 by convention, `message` a few words that go with it
        (cut after `PROGRESS_MESSAGE_CHARACTERS_MAX`); readers see both in the job.

        `jobs` is one that `claim` returned, or a list of them; from now on they have
        `lease_seconds`.
        """
        lease_seconds = plain_seconds("lease_seconds", lease_seconds)
        if progress is not None:
            progress = float(plain_number("progress", progress))
        elif message is not None:
            raise InvalidInput(
                "message goes with a progress: heartbeat(job, progress=…, message=…)"
            )
        words = None if message is None else progress_message(message)
        many = many_jobs(jobs)
        items = [
            commands.Beat(job.id, lease_of(job), lease_seconds, progress, words) for job in many
        ]
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
        """Completes jobs. Of a list: with one result for all, or with one of `results` each.

        `jobs` is one that `claim` returned, or a list of them; `result` is any value of the `codec`
        (JSON unless named).
        """
        if results is not None:
            return await self._ack_each(many_jobs(jobs), results, codec)
        sealed = self._envelopes.seal("result", result, codec)
        if sealed is None and not isinstance(jobs, Job):
            # Each keeps one of its own, which its store may refuse.
            many = many_jobs(jobs)
            return await self._ack_each(many, [result] * len(many), codec)
        many = many_jobs(jobs)
        if sealed is None:
            items = [await self._kept_success(job, result, codec) for job in many]
        else:
            items = [Success(job.id, lease_of(job), *sealed) for job in many]
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
        traceback: str | None = None,
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
        traceback: str | None = None,
    ) -> list[State | PenstockError]: ...
    async def nack(
        self,
        jobs: Job | Sequence[Job],
        error: object = "",
        *,
        retry: bool = True,
        kind: str = "error",
        delay_seconds: float | None = None,
        traceback: str | None = None,
    ) -> Any:
        """Says that an attempt failed; it is tried again unless that makes no sense any more.

        The event keeps the last 4 KiB of the `traceback`, or of that which `error` carries if it
        is an exception. Each job passed in has its new `state` and `run_at` afterwards.

        `jobs` is one that `claim` returned, or a list of them; `error` and its `kind` are kept with
        the attempt. Without `retry` it is final; `delay_seconds` takes the place of the policy's
        backoff.
        """
        if delay_seconds is not None:
            delay_seconds = plain_seconds("delay_seconds", delay_seconds)
        kind, retry = check_text("kind", kind), plain_switch("retry", retry)
        message, frames = describe(error), described_traceback(error, traceback)
        many = many_jobs(jobs)
        items = [
            commands.Failure(job.id, lease_of(job), message, kind, retry, delay_seconds, frames)
            for job in many
        ]
        verdicts = await self._settle(commands.Nack(self.tenant, items), items)
        for job, verdict in zip(many, verdicts, strict=True):
            if isinstance(verdict, Verdict):
                job.state, job.run_at = verdict.state, verdict.run_at
        states = [one.state if isinstance(one, Verdict) else one for one in verdicts]
        return one_or_all(jobs, states)

    @overload
    async def release(self, jobs: Job) -> None: ...
    @overload
    async def release(self, jobs: Sequence[Job]) -> list[PenstockError | None]: ...
    async def release(self, jobs: Job | Sequence[Job]) -> Any:
        """Gives leases back: the jobs are due at once for others, and no failure is counted.

        `jobs` is one that `claim` returned, or a list of them.
        """
        items = [commands.Return(job.id, lease_of(job)) for job in many_jobs(jobs)]
        return one_or_all(jobs, await self._settle(commands.Release(self.tenant, items), items))

    @overload
    async def snooze(self, jobs: Job, until: float | datetime) -> None: ...
    @overload
    async def snooze(
        self, jobs: Sequence[Job], until: float | datetime
    ) -> list[PenstockError | None]: ...
    async def snooze(self, jobs: Job | Sequence[Job], until: float | datetime) -> Any:
        """Gives leases back to come again later; no failure is counted.

        `jobs` is one that `claim` returned, or a list of them; `until` is when they are due again.
        """
        at = epoch_seconds("until", until)
        items = [commands.Return(job.id, lease_of(job), at) for job in many_jobs(jobs)]
        return one_or_all(jobs, await self._settle(commands.Release(self.tenant, items), items))

    def keep_alive(
        self, job: Job, *, lease_seconds: float = LEASE_SECONDS
    ) -> AbstractAsyncContextManager[Job]:
        """Heartbeats while the body runs; cancels it, and raises why, when the lease is lost.

        `job` is one that `claim` returned; each heartbeat extends its lease to `lease_seconds`.
        """
        job, lease_seconds = one_job(job), plain_seconds("lease_seconds", lease_seconds)
        return keep_alive(self.heartbeat, job, lease_seconds, self._services.clock)

    async def _ack_each(
        self, jobs: Sequence[Job], results: Sequence[Any], codec: str | None
    ) -> list[PenstockError | None]:
        """A result that can't be stored is its own job's problem; the others complete."""
        prepared: list[Success | PenstockError] = []
        for job, result in zip(jobs, many_results(jobs, results), strict=True):
            try:
                sealed = self._envelopes.seal("result", result, codec)
                prepared.append(
                    await self._kept_success(job, result, codec)
                    if sealed is None
                    else Success(job.id, lease_of(job), *sealed)
                )
            except (InvalidInput, StoreRefused) as error:
                prepared.append(error)
        items = [item for item in prepared if isinstance(item, Success)]
        answers = iter(await self._settle(commands.Ack(self.tenant, items), items))
        return [next(answers) if isinstance(item, Success) else item for item in prepared]

    async def _kept_success(self, job: Job, result: Any, codec: str | None) -> Success:
        """With a result that is too large to go inline."""
        name, key = await self._envelopes.keep(job.id, result, codec)
        return Success(job.id, lease_of(job), ABSENT, name, key)
