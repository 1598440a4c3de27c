"""A client that writes down what it asked and what it was told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, TypeVar

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import (
    JobCancelled,
    JobFailed,
    OutcomeUnknown,
    PenstockError,
    QueueClosed,
)
from penstock.kernel.commands import Claim, ImportReceipt, Receipt
from penstock.kernel.invariants import Call
from penstock.kernel.job import Job
from penstock.kernel.manifest import ImportManifest
from penstock.ports.backend import Backend
from penstock.testing.simulation.history import History

T = TypeVar("T")


class RecordingClient:
    def __init__(
        self,
        name: str,
        queue: Queue,
        backend: Backend,
        history: History,
        new_secret: Callable[[], str],
    ) -> None:
        self.name = name
        self.queue = queue
        self.backend = backend
        self.tenant = queue.tenant
        self.new_secret = new_secret
        self._history = history

    async def enqueue(self, new: NewJob, operation: str) -> Receipt:
        call = self._call("enqueue", operation, new.id or "")
        outcome = await self._ask(
            call, self.queue.enqueue_many([new], operation=operation), _nothing
        )
        receipt = outcome[0]
        self._history.answered(call)
        if isinstance(receipt, PenstockError):
            _fail(call, receipt)
            raise receipt
        call.answer, call.answer_id = receipt.status, receipt.id
        call.fence = fence_of(receipt.result)
        return receipt

    async def call(self, new: NewJob, operation: str, timeout_seconds: float) -> None:
        """Request and response; how it ended is written down."""
        self._call("enqueue", operation, new.id or "")
        call = self._call("call", operation, new.id or "")
        asked = self.queue.call(
            new.type, new.payload, queue=new.queue, id=new.id, operation=operation,
            timeout_seconds=timeout_seconds,
        )  # fmt: skip
        try:
            result = await self._ask(call, asked, _nothing)
        except (JobFailed, JobCancelled) as error:
            call.is_error = False
            call.answer = "failed" if isinstance(error, JobFailed) else "cancelled"
            return
        call.answer, call.fence = "completed", fence_of(result)

    async def claim(
        self,
        count: int,
        operation: str,
        lease_seconds: float,
        queues: tuple[str, ...] | None,
        worker: str,
    ) -> list[Job]:
        call = self._call("claim", operation)
        call.count, call.queues = count, queues
        command = Claim(self.tenant, operation, count, lease_seconds, queues, None, worker)

        def note(jobs: list[Job]) -> None:
            call.leases = tuple((job.id, job.lease) for job in jobs if job.lease is not None)

        jobs = await self._ask(call, self.backend.execute(command), note)
        # As `Queue.claim` does: what a caller does to its jobs must not happen to the queue's.
        return [copy(job) for job in jobs]

    async def ack(self, job: Job, result: Any) -> None:
        await self._ask(self._call_on("ack", job), self.queue.ack(job, result), _nothing)

    async def nack(self, job: Job, *, retry: bool) -> None:
        await self._ask(
            self._call_on("nack", job), self.queue.nack(job, "boom", retry=retry), _nothing
        )

    async def release(self, job: Job) -> None:
        await self._ask(self._call_on("release", job), self.queue.release(job), _nothing)

    async def snooze(self, job: Job, until: float) -> None:
        await self._ask(self._call_on("snooze", job), self.queue.snooze(job, until), _nothing)

    async def heartbeat(self, job: Job, lease_seconds: float, progress: float | None) -> None:
        asked = self.queue.heartbeat(job, lease_seconds=lease_seconds, progress=progress)
        await self._ask(self._call_on("heartbeat", job), asked, _nothing)

    async def cancel(self, id: str) -> None:
        call = self._call("cancel", "", id)

        def note(outcome: str) -> None:
            call.answer = outcome

        await self._ask(call, self.queue.cancel(id), note)

    async def publish(self, run: str, manifest: ImportManifest) -> None:
        call = self._call("publish", run)

        def note(receipt: ImportReceipt) -> None:
            call.answer = receipt.status

        await self._ask(call, self.queue.publish_import(run, [manifest]), note)

    async def get(self, id: str) -> Job | None:
        call = self._call("get", "", id)

        def note(job: Job | None) -> None:
            call.answer = "" if job is None else job.state.value
            call.fence = None if job is None else fence_of(job.result)

        return await self._ask(call, self.queue.get(id), note)

    async def manage(self, kind: str, asked: Awaitable[T], id: str = "") -> T:
        """Anything else, of which only the effects in the log are looked at."""
        return await self._ask(self._call(kind, "", id), asked, _nothing)

    def _call(self, kind: str, operation: str, id: str = "") -> Call:
        return self._history.asked(self.name, kind, self.tenant, operation, id)

    def _call_on(self, kind: str, job: Job) -> Call:
        assert job.lease is not None
        call = self._call(kind, job.lease.secret, job.id)
        call.lease = job.lease
        return call

    async def _ask(self, call: Call, asked: Awaitable[T], note: Callable[[T], None]) -> T:
        try:
            answer = await asked
        except PenstockError as error:
            self._history.answered(call)
            _fail(call, error)
            raise
        self._history.answered(call)
        note(answer)
        return answer


def fence_of(result: Any) -> int | None:
    """Workers sign their results with the fence of the attempt that made them."""
    return result.get("fence") if isinstance(result, dict) else None


def _fail(call: Call, error: PenstockError) -> None:
    call.is_error = True
    call.answer = type(error).__name__
    # A closed handle may have sent the command before; everything else says what it knows.
    call.is_certain = not isinstance(error, OutcomeUnknown | QueueClosed)


def _nothing(answer: object) -> None:
    """The answer says nothing that is not in the log."""
