"""Ended jobs, ranked by when they may go; and the results that are kept of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from penstock.kernel.job import Job, State
from penstock.kernel.order import Ranking
from penstock.kernel.segments import Head
from penstock.kernel.settings import Settings

RESULT_BYTES_SLIM: Final = 128
"""Results up to this size are kept anyway: they weigh no more than the job itself."""


class Ended(Protocol):
    """What says when an ended job may go."""

    @property
    def state(self) -> State | None: ...
    @property
    def ended_at(self) -> float | None: ...
    @property
    def archived_at(self) -> float | None: ...


class Retention:
    def __init__(self, is_current: Callable[[Job | Head], bool]) -> None:
        self.completed = Ranking(is_current)
        """Completed jobs: (ended_at, life)."""
        self.completed_elsewhere = 0
        """How many more there are, where the state is only the part that a batch touches."""
        self.dead_letters = Ranking(is_current)
        """Failed and cancelled jobs: (ended_at, life)."""
        self.archived = Ranking(is_current)
        """Archived jobs of any terminal state: (archived_at, life)."""
        self.results = Ranking(is_current)
        """Ended jobs whose results weigh something, by their last transition."""
        self.results_bytes = 0

    def add(self, job: Job) -> None:
        if len(job.result) > RESULT_BYTES_SLIM:
            self.results.push((job.trail[-1], job))
            self.results_bytes += len(job.result)
        self._ranking_of(job).push((job.archived_at or job.ended_at, job.life, job))

    def note_death(self, job: Job) -> None:
        """It is no longer ended, or as another version."""
        if len(job.result) > RESULT_BYTES_SLIM:
            self.results.note_death()
            self.results_bytes -= len(job.result)
        self._ranking_of(job).note_death()

    def outlived(self, settings: Settings, at: float) -> Iterator[Job]:
        """The jobs that may go by now. One that the caller leaves in place ends its ranking."""
        for ranking in (self.completed, self.dead_letters, self.archived):
            job: Job | None = None
            while (entry := ranking.first()) is not None and entry[-1] is not job:
                job = entry[-1]
                assert job is not None
                is_too_many = (
                    ranking is self.completed
                    and len(ranking) + self.completed_elsewhere > settings.finished_jobs_max
                )
                if not (is_too_many or has_lapsed(job, settings, at)):
                    break
                yield job

    def _ranking_of(self, job: Job) -> Ranking:
        if job.archived_at is not None:
            return self.archived
        return self.completed if job.state is State.COMPLETED else self.dead_letters


def has_lapsed(job: Ended, settings: Settings, at: float) -> bool:
    """Whether an ended job has outlived its retention."""
    return lapses_at(job, settings) <= at


def lapses_at(job: Ended, settings: Settings) -> float:
    """When an ended job has outlived its retention."""
    if job.archived_at is not None:
        return job.archived_at + settings.archive_ttl_seconds
    assert job.ended_at is not None
    if job.state is State.COMPLETED:
        return job.ended_at + settings.result_ttl_seconds
    return job.ended_at + settings.dead_letter_ttl_seconds
