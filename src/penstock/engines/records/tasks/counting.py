"""Counts of a tenant's jobs, out of what is known of the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.engines.records.charters import prepared
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.known import time_of_seen
from penstock.kernel.events import commit_of
from penstock.kernel.job import State
from penstock.kernel.retention import has_lapsed
from penstock.ports.counters import Count, Survey, Waiting
from penstock.wire.seen import Seen
from penstock.wire.task import Deletion

Left = Mapping[str, Mapping[State, int]]
"""By queue and state."""


def survey(known: Mapping[str, Seen], store: CharterStore, tenant: str, at: float) -> Survey:
    """Counts as of a time: a job that has outlived its retention by then has left.

    `known` are the tasks of the tenant, by the keys of their objects.
    """
    tasks = {key: seen for key, seen in known.items() if not store.is_late(seen)}
    charter, state = store.object, prepared(store.current)
    counts: dict[tuple[str, State], list[int]] = {}
    times: dict[tuple[str, str], list[float]] = {}

    def count(queue: str, one: State, number: int, *, has_left: bool) -> None:
        numbers = counts.setdefault((queue, one), [0, 0])
        numbers[0] += number
        numbers[1] += number if has_left else 0

    for left in (charter.left.get(tenant, {}), *_left(tasks, charter.deletion, tenant)):
        for queue, states in left.items():
            for one, number in states.items():
                count(queue, one, number, has_left=True)
    for seen in tasks.values():
        if seen.state is None:
            continue
        as_of = state.as_of(time_of_seen(seen, at))
        has_left = seen.ended_at is not None and has_lapsed(seen, state.settings, as_of)
        count(seen.queue, seen.state, 1, has_left=has_left)
        if seen.state is State.PENDING:
            times.setdefault((seen.queue, seen.type), []).append(seen.due_at)
    newest = max((seen.last_position for seen in tasks.values()), default=0)
    if charter.events:
        newest = max(newest, charter.events[-1].position)
    return Survey(
        commit_of(newest),
        [Count(queue, one, now, left) for (queue, one), (now, left) in sorted(counts.items())],
        [
            Waiting(queue, type, len(due), min(due), sum(time > at for time in due))
            for (queue, type), due in sorted(times.items())
        ],
    )


def _left(tasks: Mapping[str, Seen], deletion: Deletion | None, tenant: str) -> Iterator[Left]:
    """What has left of each task, and of those that are gone already and were not counted yet."""
    for seen in tasks.values():
        if seen.left:
            yield seen.left
    if deletion is None:
        return
    for key, leaving in deletion.tasks.items():
        there = tasks.get(key)
        is_gone = there is None or not (there.is_buried or there.is_spared)
        if leaving.tenant == tenant and is_gone:
            yield leaving.left
