"""Request and response over a queue: enqueue, then wait for the end without asking for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.client.envelopes import Envelopes
from penstock.errors import CallTimeout, JobCancelled, JobFailed, JobNotFound
from penstock.kernel.commands import Receipt
from penstock.kernel.events import Completed, EndEvent, Failed
from penstock.kernel.job import Job, State
from penstock.ports.backend import Backend


class Calls:
    def __init__(self, backend: Backend, tenant: str, envelopes: Envelopes) -> None:
        self._backend = backend
        self._tenant = tenant
        self._envelopes = envelopes

    async def call(
        self, id: str, enqueue: Callable[[], Awaitable[Receipt]], timeout_seconds: float
    ) -> Any:
        # Watched before it is enqueued, so that the end can't come unnoticed in between.
        with self._backend.watch_end(self._tenant, id) as end:
            receipt = await enqueue()
            try:
                async with asyncio.timeout(timeout_seconds):
                    if receipt.status == "completed":
                        return receipt.result
                    if receipt.status == "queued" and receipt.id == id:
                        return await self._result(id, await end)
                    return await self._join(receipt.id)
            except TimeoutError:
                raise CallTimeout(receipt.id, timeout_seconds) from None

    async def _join(self, id: str) -> Any:
        """Waits for a job that somebody else enqueued."""
        with self._backend.watch_end(self._tenant, id) as end:
            job = await self._find(id)
            if job.is_terminal:
                return await self._result_of(job)
            return await self._result(id, await end)

    async def _result(self, id: str, end: EndEvent | None) -> Any:
        match end:
            case Completed():
                return await self._envelopes.result(end.result, end.result_codec, end.result_key)
            case Failed():
                raise JobFailed(id, end.kind, end.error)
            case None:
                return await self._join(id)
            case _:
                raise JobCancelled(id)

    async def _result_of(self, job: Job) -> Any:
        if job.state is State.COMPLETED:
            return (await self._envelopes.open(job)).result
        if job.state is State.FAILED:
            last = job.errors[-1]
            raise JobFailed(job.id, last.kind, last.message)
        raise JobCancelled(job.id)

    async def _find(self, id: str) -> Job:
        job = (await self._backend.get(self._tenant, [id]))[0]
        if job is None:
            raise JobNotFound(id)
        return job
