"""How a worker works, and what it has done."""

from __future__ import annotations

import os
from typing import Final, Literal

from msgspec import Struct

from penstock.client.newjob import check_seconds
from penstock.errors import InvalidInput
from penstock.worker.adapting import Bounds

AUTO: Final = "auto"
CONCURRENCY: Final = 64
"""How many jobs at once unless told otherwise; `auto` begins with it too."""
PROCESSES: Final = os.cpu_count() or 1


class WorkerOptions(Struct, frozen=True, kw_only=True):
    queues: tuple[str, ...] | None = None
    """Only these; all of the tenant's without."""
    concurrency: int | Literal["auto"] = CONCURRENCY
    """How many jobs at once; `auto` finds it out, between the next two."""
    concurrency_min: int = 8
    concurrency_max: int = 1_024
    processes: int = PROCESSES
    """How many tasks with `cpu=True` run at a time."""
    lease_seconds: float = 30.0
    grace_seconds: float = 30.0
    burst: bool = False
    """Ends when there is nothing due any more."""
    jobs_max: int | None = None
    """Ends after so many jobs, against handlers that leak."""
    monitor: bool = True
    """Takes its turn at the housekeeping; one of all workers leads."""
    name: str | None = None

    def __post_init__(self) -> None:
        for option in (
            "concurrency",
            "concurrency_min",
            "concurrency_max",
            "processes",
            "jobs_max",
        ):
            self._check_count(option)
        if self.concurrency_min > self.concurrency_max:
            raise InvalidInput(
                f"concurrency_min={self.concurrency_min} is more than "
                f"concurrency_max={self.concurrency_max}"
            )
        check_seconds("grace_seconds", self.grace_seconds)
        check_seconds("lease_seconds", self.lease_seconds)
        if self.lease_seconds == 0:
            raise InvalidInput("lease_seconds=0: a lease has to last for a while")

    def _check_count(self, option: str) -> None:
        value = getattr(self, option)
        if (option, value) in (("concurrency", AUTO), ("jobs_max", None)):
            return
        if type(value) is not int or value < 1:
            raise InvalidInput(f"{option}={value!r}: a worker needs at least 1")

    @property
    def bounds(self) -> Bounds:
        """Between which the concurrency is to be found; one number if it was given."""
        if self.concurrency == AUTO:
            return Bounds(self.concurrency_min, self.concurrency_max)
        return Bounds(self.concurrency, self.concurrency)


class Counters(Struct):
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    given_back: int = 0
    stalled: int = 0
