"""A check-up of layout `single`: the object itself, the archive, and the story that both tell.

Each job stands there with its events, in `queue.json` or in the archive, so the log can be put
together again. What concerns whole queues stands beside them, or was set aside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from penstock.engines.ledger.names import ARCHIVE, QUEUE
from penstock.engines.ledger.single.archive import Archive, ArchivedJob
from penstock.engines.ledger.single.document import Document, JobRecord, decode_document
from penstock.errors import PenstockError
from penstock.insights.checks import Check
from penstock.insights.findings import FROM_THE_BEGINNING, OF_EVERY_PART, Findings, stored
from penstock.insights.wording import counted
from penstock.kernel.events import Enqueued, Event, JobEvent, commit_of
from penstock.kernel.invariants import Committed, Tally, Violation
from penstock.kernel.job import ABSENT, Job
from penstock.kernel.state import QueueState
from penstock.kernel.transitions import IllegalTransition, apply, born
from penstock.ports.store import ObjectStore
from penstock.wire.snapshot import restore


class SingleCheckup:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.state: QueueState | None = None

    async def run(self) -> AsyncIterator[Check]:
        try:
            document = decode_document((await self._store.get(QUEUE)).data)
            state = restore(
                document.overview, [record.job for record in document.jobs], document.at
            )
        except PenstockError as error:
            yield stored(QUEUE, "fail", str(error))
            return
        self.state = state
        said = f"{counted(len(document.jobs), 'job')} as of commit {document.commit:,}"
        yield stored(QUEUE, "ok", said)
        try:
            archive = Archive(self._store)
            archived, aside = await archive.read(), await archive.read_aside()
        except PenstockError as error:
            yield stored(ARCHIVE, "fail", str(error))
            return
        yield stored(ARCHIVE, "ok", counted(len(archived), "job"))
        for check in await asyncio.to_thread(_judged, document, archived, aside, state):
            yield check


def _judged(
    document: Document, archived: Sequence[ArchivedJob], aside: Iterable[Event], state: QueueState
) -> list[Check]:
    findings = Findings()
    lives = {(job.tenant, job.id, job.life) for job in (each.job for each in document.jobs)}
    left = [each for each in archived if (each.tenant, each.id, each.life) not in lives]
    findings.add("jobs are their events", _misfits(document.jobs, left, document.commit))
    log = _log(document, left, aside)
    findings.judge(OF_EVERY_PART, log)
    findings.judge(FROM_THE_BEGINNING, log)
    tally = Tally()
    tally.see(log)
    findings.add("counts are conserved", tally.against(state))
    events = sum(len(commit.events) for commit in log)
    return list(findings.checks(f"over {counted(events, 'event')}"))


def _misfits(
    live: Iterable[JobRecord], left: Iterable[ArchivedJob], newest: int
) -> Iterable[Violation]:
    """Jobs that are not what their events make of them."""
    for job, events in (
        *((record.job, record.events) for record in live),
        *((record.job, record.events) for record in left),
    ):
        problem = misfit(job, events)
        if problem is None and commit_of(events[-1].position) > newest:
            problem = "its events go on after the newest commit"
        if problem is not None:
            yield Violation(14, problem, None, job.tenant, job.id)


def misfit(job: Job, events: Sequence[JobEvent]) -> str | None:
    """How a job differs from what its events make of it."""
    first = events[0] if events else None
    if not isinstance(first, Enqueued):
        return "its events do not begin with its enqueue"
    try:
        # The calls that began earlier lives are told by the events of those.
        earlier = job.operations if first.operation is None else job.operations[:-1]
        made = born(first, earlier)
        for event in events[1:]:
            made = apply(made, event)
    except IllegalTransition as error:
        return str(error)
    return None if _comparable(made) == _comparable(job) else "it is not what its events make of it"


def _comparable(job: Job) -> Job:
    """Without its result, which may have been let go."""
    return replace(job, result=ABSENT)


def _log(
    document: Document, left: Iterable[ArchivedJob], aside: Iterable[Event]
) -> list[Committed]:
    """Every event, in order, as the commits that they were in."""
    known = (*aside, *document.aside, *document.events)
    by_position: dict[int, Event] = {event.position: event for event in known}
    stories = [record.events for record in document.jobs] + [record.events for record in left]
    for story in stories:
        by_position.update((event.position, event) for event in story)
    events = [by_position[position] for position in sorted(by_position)]
    commits = groupby(events, lambda event: commit_of(event.position))
    return [
        Committed(commit, "", group[0].at, group)
        for commit, group in ((commit, list(each)) for commit, each in commits)
    ]
