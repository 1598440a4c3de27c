"""The table `jobs` of a queue: its state as of a commit, and who had left by then.

Of a log: the newest checkpoint up to that commit with the commits after it folded in, then the log
once from its end to its beginning, for jobs that ended and are in that state no more. The first
ending that is met is a life's last. Of other backends: each job is folded from its own events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from pyspark.sql.types import StructType

from penstock.errors import InvalidOption
from penstock.kernel.events import Enqueued, JobFact
from penstock.kernel.job import Job
from penstock.kernel.transitions import apply, born
from penstock.pipeline.source.chunks import Chunk, Span
from penstock.pipeline.source.columns import Array, Row
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.log import LogSource
from penstock.pipeline.source.loops import drain
from penstock.pipeline.source.opening import opened
from penstock.pipeline.source.options import ReadOptions
from penstock.pipeline.source.planning import until_of
from penstock.pipeline.source.reading import batches, maker_of
from penstock.pipeline.source.tables import jobs_builder
from penstock.wire.commit import decode_event
from penstock.wire.snapshot import all_jobs, canonical


def read_jobs(options: ReadOptions, schema: StructType, span: Span) -> Iterator[Array]:
    jobs = asyncio.run(_jobs(options, span))
    yield from batches(jobs_builder(schema), iter([_asked_for(options, jobs)]))
    builder, endings = maker_of(options, schema)
    lives = {job.life for job in jobs}
    del jobs
    chunks = drain(_backwards(options, span))
    yield from batches(builder, (_last_endings(endings(chunk), lives) for chunk in chunks))


async def _jobs(options: ReadOptions, span: Span) -> list[Job]:
    """Jobs as of the end of the span, in the order in which their lives began."""
    async with opened(options.address) as source:
        if isinstance(source, LogSource):
            return canonical(all_jobs(await source.state_as_of(span.last)))
        return await _folded(source, span, options)


async def _folded(source: BackendSource, span: Span, options: ReadOptions) -> list[Job]:
    until = until_of(options)
    if span.first > 1:
        rule = f"events before commit {span.first} were vacuumed, and jobs are folded from them"
        raise InvalidOption("table", options.table, f"{rule}; read events or attempts")
    jobs: dict[int, Job] = {}
    async with aclosing(source.chunks(span)) as chunks:
        async for chunk in chunks:
            for event in map(decode_event, chunk.lines.splitlines()):
                if until is not None and event.at >= until:
                    continue
                if isinstance(event, Enqueued):
                    jobs[event.life] = born(event)
                elif isinstance(event, JobFact):
                    jobs[event.life] = apply(jobs[event.life], event)
    return [jobs[life] for life in sorted(jobs)]


async def _backwards(options: ReadOptions, span: Span) -> AsyncGenerator[Chunk]:
    async with opened(options.address) as source:
        if isinstance(source, LogSource):
            async with aclosing(source.chunks(span, backwards=True)) as chunks:
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
