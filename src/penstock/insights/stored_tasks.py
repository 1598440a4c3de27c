"""A check-up of layout `tasks`: each job and its events, who holds the keys, and both indexes.

What is stored is read as it is and nothing is put right: that is the sweeper's business. Of the
laws those are asked that concern one job at a time, since of several there is no common order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from penstock.engines.records.charters import prepared
from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.index import is_stale, old_entry, parsed
from penstock.engines.records.tasks.names import (
    CHARTER,
    LEASES,
    READY,
    TASKS,
    Leased,
    Ready,
    key_key,
    leased_in,
    ready_in,
    task_key,
    task_name,
)
from penstock.engines.records.tasks.stories import EVENTS_KEPT
from penstock.errors import FormatError, ObjectNotFound, PenstockError
from penstock.insights.checks import Check
from penstock.insights.findings import FROM_THE_BEGINNING, OF_EVERY_PART, Findings, stored
from penstock.insights.stored_single import misfit
from penstock.insights.wording import counted
from penstock.kernel.events import commit_of
from penstock.kernel.invariants import Committed, Violation
from penstock.kernel.job import Job
from penstock.kernel.state import QueueState
from penstock.ports.store import ObjectStore
from penstock.wire.task import (
    CharterObject,
    KeyObject,
    Task,
    decode_charter_object,
    decode_key,
    decode_task,
)

PORTION: Final = 500
CONSERVATION: Final = 14
KEYS: Final = 10
SHOWN_MAX: Final = 3
OF_ONE_JOB: Final = ("leases are exclusive", "terminal is final", "attempts are counted")
FULL_INDEX: Final = "every job is in its index"
CLEAN_INDEX: Final = "index entries stand for jobs"
KEYS_NAME_HOLDERS: Final = "keys name their holders"


class TasksCheckup:
    def __init__(self, store: ObjectStore, progress: Callable[[int, int], None]) -> None:
        self._store = store
        self._progress = progress
        self.state: QueueState | None = None

    async def run(self) -> AsyncIterator[Check]:
        try:
            charter = await self._charter()
        except FormatError as error:
            yield stored(CHARTER, "fail", str(error))
            return
        yield stored(CHARTER, "ok", counted(len(charter.events), "event"))
        tasks, unreadable = await self._tasks()
        if unreadable:
            quoted = "; ".join(unreadable[:SHOWN_MAX])
            yield stored("tasks", "fail", f"{len(unreadable):,} can't be read: {quoted}")
        else:
            yield stored("tasks", "ok", counted(len(tasks), "object"))
        self.state = prepared(charter.charter)
        for task in tasks:
            if task.job is not None:
                self.state.adopt(task.job)
        for check in await asyncio.to_thread(_judged, tasks):
            yield check
        yield await self._keys(tasks)
        async for check in self._indexes(tasks, has_unreadable=bool(unreadable)):
            yield check

    async def _charter(self) -> CharterObject:
        try:
            return decode_charter_object(CHARTER, (await self._store.get(CHARTER)).data)
        except ObjectNotFound:
            return CharterObject()

    async def _tasks(self) -> tuple[list[Task], list[str]]:
        keys = [entry.key async for entry in self._store.list(TASKS)]
        tasks: list[Task] = []
        unreadable: list[str] = []
        for start in range(0, len(keys), PORTION):
            for found in await in_parallel(self._task, keys[start : start + PORTION]):
                if isinstance(found, Task):
                    tasks.append(found)
                elif found is not None:
                    unreadable.append(found)
            self._progress(min(start + PORTION, len(keys)), len(keys))
        return tasks, unreadable

    async def _task(self, key: str) -> Task | str | None:
        """The task, or why it is none; None if it has gone since it was listed."""
        try:
            task = decode_task(key, (await self._store.get(key)).data)
        except ObjectNotFound:
            return None
        except PenstockError as error:
            return str(error)
        if key != task_key(task_name(task.tenant, task.id)):
            return f"{key}: it is the task of {task.id!r}, in another's place"
        return task

    async def _keys(self, tasks: Sequence[Task]) -> Check:
        held = [task.job for task in tasks if _holds_key(task.job)]
        problems = await in_parallel(self._key_problem, held)
        findings = Findings()
        findings.add(
            KEYS_NAME_HOLDERS,
            [
                Violation(KEYS, problem, None, job.tenant, job.id)
                for job, problem in zip(held, problems, strict=True)
                if job is not None and problem is not None
            ],
        )
        return findings.check(KEYS_NAME_HOLDERS, f"{counted(len(held), 'key')} held")

    async def _key_problem(self, job: Job | None) -> str | None:
        assert job is not None
        assert job.key is not None
        key = key_key(job.tenant, (job.queue, job.type, job.key))
        try:
            holder: KeyObject = decode_key(key, (await self._store.get(key)).data)
        except PenstockError as error:
            return str(error)
        if (holder.id, holder.life) == (job.id, job.life):
            return None
        return f"it is live, but its key is that of {holder.id!r}"

    async def _indexes(
        self, tasks: Sequence[Task], *, has_unreadable: bool
    ) -> AsyncIterator[Check]:
        # Listed after the tasks were read: what is missing now was not there then either, or the
        # job has gone on since.
        entries: list[Ready | Leased] = [
            *parsed(ready_in, [entry.key async for entry in self._store.list(READY)]),
            *parsed(leased_in, [entry.key async for entry in self._store.list(LEASES)]),
        ]
        filed = {(type(entry), entry.name, entry.position) for entry in entries}
        wanted = [entry for entry in map(old_entry, tasks) if entry is not None]
        missing = [
            entry.name for entry in wanted if (type(entry), entry.name, entry.position) not in filed
        ]
        yield _index_check(FULL_INDEX, missing, counted(len(wanted), "live job"))
        by_name = {task_name(task.tenant, task.id): task for task in tasks}
        stale = [
            entry.key
            for entry in entries
            if (
                is_stale(entry, by_name[entry.name])
                if entry.name in by_name
                else not has_unreadable
            )
        ]
        yield _index_check(CLEAN_INDEX, stale, counted(len(entries), "entry", "entries"))


def _judged(tasks: Sequence[Task]) -> list[Check]:
    findings = Findings()
    findings.add("jobs are their events", _misfits(tasks))
    laws = {**OF_EVERY_PART, **{name: FROM_THE_BEGINNING[name] for name in OF_ONE_JOB}}
    for task in tasks:
        findings.judge(laws, _log(task))
    events = sum(len(task.events) for task in tasks)
    return list(findings.checks(f"over {counted(events, 'event')}"))


def _misfits(tasks: Sequence[Task]) -> Iterator[Violation]:
    for task in tasks:
        if task.job is None or len(task.events) >= EVENTS_KEPT:
            continue
        events = [event for event in task.events if event.life == task.job.life]
        problem = misfit(task.job, events)
        if problem is not None:
            yield Violation(CONSERVATION, problem, None, task.tenant, task.id)


def _log(task: Task) -> list[Committed]:
    """Every event as a commit of its own."""
    return [Committed(commit_of(event.position), "", event.at, [event]) for event in task.events]


def _index_check(name: str, wrong: Sequence[str], fine: str) -> Check:
    if not wrong:
        return stored(name, "ok", fine)
    quoted = ", ".join(wrong[:SHOWN_MAX])
    words = f"{len(wrong):,} do not ({quoted}); the sweeper of a worker or monitor repairs that"
    return stored(name, "warn", words)


def _holds_key(job: Job | None) -> bool:
    return job is not None and job.key is not None and not job.is_terminal
