"""What must hold of states, checkpoints and what is deleted; and that everything ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from penstock.kernel.events import Admitted, Claimed, Enqueued, Event, Imported
from penstock.kernel.invariants.history import Stories
from penstock.kernel.invariants.record import Committed, Violation, job_events
from penstock.kernel.job import State
from penstock.kernel.state import QueueState
from penstock.kernel.transitions import state_after


class Deletion(Struct, frozen=True):
    """A commit that was deleted from the store, and what stood there at that moment."""

    commit: int
    floor: int
    checkpoints: tuple[int, ...]
    """Good ones: each the fold of the log up to its commit."""


class Tally:
    """How many jobs each queue has by state, as the log says, read a part at a time."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], dict[State, int]] = {}
        self._current: dict[tuple[str, str], State] = {}
        self._unadmitted: dict[tuple[str, str], int] = {}

    def see(self, log: Iterable[Committed]) -> None:
        commits = list(log)
        for commit in commits:
            for event in commit.events:
                self._see_import(event)
        for _, event in job_events(commits):
            counts = self._told.setdefault((event.tenant, event.queue), {})
            job = (event.tenant, event.id)
            before = None if isinstance(event, Enqueued) else self._current.get(job)
            after = state_after(before, event)
            if after is None:
                continue
            if before is not None:
                counts[before] -= 1
            counts[after] = counts.get(after, 0) + 1
            self._current[job] = after

    def _see_import(self, event: Event) -> None:
        unadmitted = self._unadmitted
        if isinstance(event, Imported):
            for segment in (segment for part in event.objects for segment in part.segments):
                queue = (event.tenant, segment.queue)
                unadmitted[queue] = unadmitted.get(queue, 0) + segment.rows
        elif isinstance(event, Admitted):
            queue = (event.tenant, event.queue)
            unadmitted[queue] = unadmitted.get(queue, 0) - 1

    def forget_all_but(self, state: QueueState) -> None:
        """Jobs that have left can't change any more."""
        tenants = state.tenants
        self._current = {
            (tenant, id): each
            for (tenant, id), each in self._current.items()
            if tenant in tenants and id in tenants[tenant].jobs
        }

    def against(self, state: QueueState) -> list[Violation]:
        found: list[Violation] = []
        told = dict(self._told)
        for name, tenancy in state.tenants.items():
            for queue, counts_of_queue in tenancy.counts.items():
                expected = told.pop((name, queue), {})
                if _nonzero(counts_of_queue.now) != _nonzero(expected):
                    message = f"{queue!r} counts {counts_of_queue.now}, the log says {expected}"
                    found.append(Violation(14, message, None, name))
        found += [
            Violation(14, f"{queue!r} is not counted, the log says {counts}", None, tenant)
            for (tenant, queue), counts in told.items()
            if _nonzero(counts)
        ]
        return found

    def unadmitted_against(self, state: QueueState) -> list[Violation]:
        """Needs every `imported` event, which layout `single` did not always keep."""
        short = dict(self._unadmitted)
        for waiting in state.imports.segments():
            queue = (waiting.source.tenant, waiting.record.queue)
            short[queue] = short.get(queue, 0) - waiting.unadmitted
        return [
            Violation(14, f"{name!r} is {count} unadmitted jobs short of the log", None, tenant)
            for (tenant, name), count in short.items()
            if count
        ]


def counts_are_conserved(log: Iterable[Committed], state: QueueState) -> list[Violation]:
    """14. Enqueued + imported = unadmitted + pending + blocked + running + terminal: the state
    counts what the log says."""
    tally = Tally()
    tally.see(log)
    return tally.against(state) + tally.unadmitted_against(state)


def checkpoints_are_folds(
    checkpoints: Iterable[tuple[int, bytes]], folds: Mapping[int, bytes]
) -> list[Violation]:
    """14. `checkpoint(n)` equals the fold of `log[0..n]`, byte for byte."""
    return [
        Violation(14, "the checkpoint is not the fold of the log before it", commit)
        for commit, data in checkpoints
        if folds.get(commit) != data
    ]


def deletions_are_covered(deletions: Iterable[Deletion]) -> list[Violation]:
    """15. Nothing at or above the floor is deleted, nor newer than a verified checkpoint."""
    found: list[Violation] = []
    for deletion in deletions:
        if deletion.commit >= deletion.floor:
            found.append(
                Violation(15, f"deleted above the floor {deletion.floor}", deletion.commit)
            )
        if max(deletion.checkpoints, default=0) < deletion.commit:
            found.append(Violation(15, "deleted without a checkpoint after it", deletion.commit))
    return found


def everything_ended(stories: Stories) -> list[Violation]:
    """17. Liveness after healing: eligible jobs start, expired leases come back, all jobs end."""
    found: list[Violation] = []
    for tenant, id in stories.jobs():
        last = stories.last(tenant, id)
        if last is not None and not last[1].is_terminal:
            event, state = last
            message = f"it is still {state} after {event.event} at {event.at:.3f}"
            found.append(Violation(17, message, None, tenant, id))
    return found


def attempts_have_workers(stories: Stories, idle: Iterable[str]) -> list[Violation]:
    """17. Nobody who says that they are idle holds a lease."""
    at_rest = set(idle)
    held = [claimed for fence, claimed in stories.claims.items() if fence not in stories.ends]
    return [_held(claimed) for claimed in held if claimed.worker in at_rest]


def same_observations(name: str, one: Sequence[object], other: Sequence[object]) -> list[Violation]:
    """18. The same script gives the same observable history on every backend."""
    for step, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return [Violation(18, f"{name}, step {step}: {left!r} on one, {right!r} on another")]
    if len(one) != len(other):
        return [Violation(18, f"{name}: {len(one)} steps on one, {len(other)} on another")]
    return []


def _held(claimed: Claimed) -> Violation:
    return Violation(17, "an idle worker holds it", None, claimed.tenant, claimed.id)


def _nonzero(counts: Mapping[State, int]) -> dict[State, int]:
    return {state: count for state, count in counts.items() if count}
