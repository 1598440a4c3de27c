"""What a check-up of a long log remembers: the stories of those jobs that still matter.

The invariants are asked about a part of the log at a time. Each part is preceded by the earlier
events of those jobs that can still change, so every invariant sees whole stories although nobody
ever holds the whole log. A job that has left the state can't change any more: an event of it would
not even fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from penstock.kernel.events import (
    Admitted,
    Adopted,
    Completed,
    Enqueued,
    Event,
    ImportAborted,
    ImportAdvanced,
    Imported,
    ImportStaged,
    JobFact,
    Paused,
    Resumed,
    commit_of,
)
from penstock.kernel.invariants import Committed
from penstock.kernel.job import ABSENT
from penstock.kernel.state import QueueState

RUN_EVENTS: Final = (Imported, ImportStaged, ImportAdvanced, ImportAborted)


class Retained:
    def __init__(self) -> None:
        self._stories: dict[tuple[str, str, int], list[Event]] = {}
        self._pauses: dict[tuple[str, str], Event] = {}
        self._runs: list[Event] = []
        """What happened to imports, which are few."""
        self._admitted: dict[tuple[str, str], list[Event]] = {}
        """Of imports that are not finished: which rows are, whatever became of the jobs."""

    @property
    def events(self) -> int:
        return sum(map(len, (*self._stories.values(), *self._admitted.values())))

    def prelude(self) -> list[Committed]:
        stories = (*self._stories.values(), *self._admitted.values(), self._runs)
        by_position = {event.position: event for story in stories for event in story}
        by_position |= {event.position: event for event in self._pauses.values()}
        events = [by_position[position] for position in sorted(by_position)]
        return [
            Committed(commit, "", group[0].at, group)
            for commit, group in (
                (commit, list(each))
                for commit, each in groupby(events, lambda event: commit_of(event.position))
            )
        ]

    def take_in(self, part: Sequence[Committed], state: QueueState) -> None:
        """Remembers a part that was judged, as of the state at its end."""
        for commit in part:
            for event in commit.events:
                if isinstance(event, Admitted):
                    rows = self._admitted.setdefault((event.tenant, event.run), [])
                    rows.append(_without_values(event))
                if isinstance(event, JobFact):
                    story = self._stories.setdefault((event.tenant, event.id, event.life), [])
                    story.append(_without_values(event))
                elif isinstance(event, Paused | Resumed):
                    self._pauses[event.tenant, event.queue] = event
                elif isinstance(event, RUN_EVENTS):
                    self._runs.append(event)
        self._admitted = {
            run: rows for run, rows in self._admitted.items() if run in state.imports.sources
        }
        self._runs = [_unless_finished(event, state) for event in self._runs]
        matter = _lives_that_matter(state)
        self._stories = {job: self._stories[job] for job in self._stories if job in matter}


def _lives_that_matter(state: QueueState) -> set[tuple[str, str, int]]:
    """Of jobs in the state, and of those whose key is held for longer than they stayed."""
    lives = set[tuple[str, str, int]]()
    for name, tenancy in state.tenants.items():
        lives.update((name, job.id, job.life) for job in tenancy.jobs.values())
        lives.update((name, hold.id, hold.life) for hold in tenancy.keys.values())
    return lives


def _unless_finished(event: Event, state: QueueState) -> Event:
    """An import whose rows are all admitted has none that could come before others."""
    if isinstance(event, Imported) and (event.tenant, event.run) not in state.imports.sources:
        return replace(event, objects=())
    return event


def _without_values(event: Event) -> Event:
    """No invariant asks for them, and each would keep a whole log object in memory."""
    if isinstance(event, Adopted):
        return replace(event, payload=ABSENT, result=ABSENT)
    if isinstance(event, Enqueued):
        return replace(event, payload=ABSENT)
    return replace(event, result=ABSENT) if isinstance(event, Completed) else event
