"""Request and response over a queue: enqueue, then wait for the end without asking for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from penstock.client.envelopes import Envelopes
from penstock.client.tracebacks import failure_records
from penstock.errors import CallTimeout, JobCancelled, JobFailed, JobNotFound, ResultUndecodable
from penstock.kernel.commands import Receipt
from penstock.kernel.events import STORED_BESIDE, Completed, EndEvent, Failed
from penstock.kernel.job import Job, State
from penstock.ports.backend import Backend
from penstock.wire.codecs import Undecodable

Finish: TypeAlias = Callable[[str], Awaitable[None]]
"""Runs the job of this id to its end, where no worker does: the test kit's."""


class Calls:
    def __init__(
        self, backend: Backend, tenant: str, envelopes: Envelopes, finish: Finish | None
    ) -> None:
        self._backend = backend
        self._tenant = tenant
        self._envelopes = envelopes
        self._finish = finish

    async def call(
        self, id: str, enqueue: Callable[[], Awaitable[Receipt]], timeout_seconds: float
    ) -> Any:
        # Watched before it is enqueued, so that the end can't come unnoticed in between.
        with self._backend.watch_end(self._tenant, id) as end:
            receipt = await enqueue()
            if self._finish is not None:
                await self._finish(receipt.id)
            try:
                async with asyncio.timeout(timeout_seconds):
                    if receipt.status == "completed":
                        return _readable(receipt.id, receipt.result)
                    if receipt.status == "queued" and receipt.id == id:
                        return await self._result(receipt, await end)
                    return await self._join(receipt)
            except TimeoutError:
                raise CallTimeout(receipt.id, timeout_seconds) from None

    async def _join(self, receipt: Receipt) -> Any:
        """Waits for a job that is there already, by whomever it was enqueued."""
        while True:
            with self._backend.watch_end(self._tenant, receipt.id) as end:
                job = await self._find(receipt)
                if job.is_terminal:
                    return await self._result_of(job)
                # What ended while it was looked for is looked for again.
                ended = await end
                if ended is not None and _is_its_end(receipt, ended):
                    return await self._told(ended)

    async def _result(self, receipt: Receipt, end: EndEvent | None) -> Any:
        if end is None or not _is_its_end(receipt, end):
            # What was seen came before the enqueue: an earlier life of the id, or a failure that
            # the enqueue has opened again.
            return await self._join(receipt)
        return await self._told(end)

    async def _told(self, end: EndEvent) -> Any:
        match end:
            case Completed():
                result = await self._envelopes.result(end.result, end.result_codec, end.result_key)
                return _readable(end.id, result)
            case Failed():
                raise JobFailed(end.id, end.kind, end.error, await self._traceback(end))
            case _:
                raise JobCancelled(end.id)

    async def _result_of(self, job: Job) -> Any:
        if job.state is State.COMPLETED:
            return _readable(job.id, (await self._envelopes.open_whole(job)).result)
        if job.state is State.FAILED:
            last = job.errors[-1]
            kept = failure_records(job, await self._backend.history(self._tenant, job.id))
            raise JobFailed(job.id, last.kind, last.message, kept[-1].traceback)
        raise JobCancelled(job.id)

    async def _traceback(self, end: Failed) -> str | None:
        if end.traceback != STORED_BESIDE:
            return end.traceback
        history = await self._backend.history(self._tenant, end.id, end.life)
        failed = [event for event in history if isinstance(event, Failed)]
        return next((one.traceback for one in failed if one.position == end.position), None) or None

    async def _find(self, receipt: Receipt) -> Job:
        job = (await self._backend.get(self._tenant, [receipt.id]))[0]
        if job is None or job.life != receipt.life:
            # It has ended and left; a later life of its id is somebody else's.
            raise JobNotFound(receipt.id)
        return job


def _readable(id: str, result: Any) -> Any:
    if isinstance(result, Undecodable):
        raise ResultUndecodable(id, result.codec, result.reason)
    return result


def _is_its_end(receipt: Receipt, end: EndEvent) -> bool:
    return end.life == receipt.life and end.position > receipt.since
