"""The table `jobs` of a queue: its state as of a commit, and who had left by then.

Of a log: the newest checkpoint up to that commit with the commits after it folded in, then the log
once from its end to its beginning, for jobs that ended and are in that state no more. The first
ending that is met is a life's last. Of other backends: each job is folded from its own events; or,
where the first of those were vacuumed, the backend is asked for the jobs that it has now, and the
rest is endings again. Jobs that an import has brought and that are not admitted yet are read from
its objects, one after the other: only the places of their rows are in the state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from msgspec import Struct
from pyspark.sql.types import StructType

from penstock.engines.ledger.imports.objects import ImportObjects
from penstock.engines.ledger.listing import UnadmittedChunk, unadmitted_chunks
from penstock.engines.ledger.log.floor import FIRST_SLOT
from penstock.errors import InvalidOption
from penstock.kernel.events import Admitted, Enqueued, JobFact, commit_of
from penstock.kernel.job import Job, State
from penstock.kernel.settings import DEFAULT_SETTINGS, Settings
from penstock.kernel.transitions import apply, born
from penstock.pipeline.source.chunks import Chunk, Span
from penstock.pipeline.source.columns import Array, Row
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.log import LogSource
from penstock.pipeline.source.loops import drain
from penstock.pipeline.source.opening import opened, opened_backend, opened_store
from penstock.pipeline.source.options import ReadOptions
from penstock.pipeline.source.planning import until_of
from penstock.pipeline.source.reading import batches, maker_of
from penstock.pipeline.source.records import RecordsSource
from penstock.pipeline.source.tables import jobs_builder
from penstock.ports.backend import Backend, Filter
from penstock.runtime.services import Services
from penstock.wire.commit import decode_event
from penstock.wire.snapshot import all_jobs, canonical

JOBS_PER_PART: Final = 1_000


class View(Struct, frozen=True):
    """Jobs as of a moment, in the order in which their lives began."""

    jobs: list[Job]
    unadmitted: list[UnadmittedChunk]
    has_left: bool
    """Whether there may be others, that had left by then."""
    settings: Settings = DEFAULT_SETTINGS
    """As of then, for what waiting rows leave to their queue."""


def read_jobs(options: ReadOptions, schema: StructType, span: Span) -> Iterator[Array]:
    view = asyncio.run(_view(options, span))
    lives = {job.life for job in view.jobs}
    live = jobs_builder(schema)
    yield from batches(live, iter([_asked_for(options, view.jobs)]))
    waiting = drain(_unadmitted(options, span, view))
    yield from batches(live, (_asked_for(options, jobs) for jobs in waiting))
    if not view.has_left:
        return
    del view
    builder, endings = maker_of(options, schema)
    chunks = drain(_backwards(options, span))
    yield from batches(builder, (_last_endings(endings(chunk), lives) for chunk in chunks))


async def _view(options: ReadOptions, span: Span) -> View:
    async with opened(options.address) as source:
        if isinstance(source, LogSource):
            state = await source.state_as_of(span.last)
            chunks = unadmitted_chunks(state.imports.segments())
            return View(canonical(all_jobs(state)), chunks, has_left=True, settings=state.settings)
        if span.first == FIRST_SLOT:
            return await _folded(source, Moment(span.last, until_of(options)))
        if options.as_of is not None:
            rule = f"what was before commit {span.first} was vacuumed, and the state with it"
            raise InvalidOption("as_of", options.as_of, f"{rule}; only that of now can be told")
    async with opened_backend(options.address, Services()) as backend:
        jobs = [
            job
            for tenant in await _tenants(backend)
            for archived in (False, True)
            async for job in backend.jobs(tenant, Filter(archived=archived))
            if job.source != job.life
        ]
    return View(jobs, [], has_left=True)


class Moment(Struct, frozen=True):
    """What was there: everything up to a commit and, where a time is given, before that."""

    commit: int
    until: float | None

    def has(self, position: int, at: float) -> bool:
        return commit_of(position) <= self.commit and (self.until is None or at < self.until)


async def _folded(source: RecordsSource | BackendSource, moment: Moment) -> View:
    """Jobs from their events. Those that an import had brought and that were admitted later have
    waited then."""
    jobs: dict[int, Job] = {}
    bounds = await source.bounds()
    async with aclosing(source.chunks(Span(bounds.floor, bounds.head))) as chunks:
        async for chunk in chunks:
            for event in map(decode_event, chunk.lines.splitlines()):
                if moment.has(event.position, event.at):
                    if isinstance(event, Enqueued):
                        jobs[event.life] = born(event)
                    elif isinstance(event, JobFact):
                        jobs[event.life] = apply(jobs[event.life], event)
                elif isinstance(event, Admitted) and moment.has(event.source, event.enqueued_at):
                    jobs[event.life] = born(event)
    return View([jobs[life] for life in sorted(jobs)], [], has_left=False)


async def _tenants(backend: Backend) -> list[str]:
    return [one.tenant for one in (await backend.contents()).tenants]


async def _unadmitted(options: ReadOptions, span: Span, view: View) -> AsyncGenerator[list[Job]]:
    """Jobs of imports that wait to be admitted, a part of them at a time."""
    services = Services()
    async with opened(options.address) as source:
        is_log = isinstance(source, LogSource)
        has_imports = isinstance(source, LogSource) or source.capabilities.imports
    if is_log:
        async with opened_store(options.address, services) as store:
            objects = ImportObjects(store, services)
            for chunk in view.unadmitted:
                yield list(chunk.jobs(await objects.rows(chunk.place), view.settings))
    elif has_imports:
        # It may not tell of the import any more, but has what of it waits still.
        moment = Moment(span.last, until_of(options))
        async with opened_backend(options.address, services) as backend:
            for tenant in await _tenants(backend):
                part: list[Job] = []
                async for job in backend.jobs(tenant, Filter(state=State.PENDING)):
                    # Its life in the log has not begun.
                    if job.source == job.life and moment.has(job.source, job.enqueued_at):
                        part.append(job)
                    if len(part) == JOBS_PER_PART:
                        yield part
                        part = []
                yield part


async def _backwards(options: ReadOptions, span: Span) -> AsyncGenerator[Chunk]:
    async with (
        opened(options.address) as source,
        aclosing(source.chunks(span, backwards=True)) as chunks,
    ):
        async for chunk in chunks:
            yield chunk


def _last_endings(endings: Sequence[Row], lives: set[int]) -> list[Row]:
    """Endings of lives that were not met yet; from now on they were."""
    found: list[Row] = []
    for row in reversed(endings):
        if row.life not in lives:
            lives.add(row.life)
            found.append(row)
    return found


def _asked_for(options: ReadOptions, jobs: list[Job]) -> list[Job]:
    return [
        job
        for job in jobs
        if options.tenant in (None, job.tenant) and options.queue in (None, job.queue)
    ]
