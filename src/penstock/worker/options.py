"""How a worker works, and what it has done."""

from __future__ import annotations

import os

from msgspec import Struct

from penstock.client.newjob import check_seconds
from penstock.errors import InvalidInput


class WorkerOptions(Struct, frozen=True, kw_only=True):
    queues: tuple[str, ...] | None = None
    """Only these; all of the tenant's without."""
    concurrency: int = 64
    processes: int = os.cpu_count() or 1
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
        for option in ("concurrency", "processes", "jobs_max"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InvalidInput(f"{option}={value}: a worker needs at least 1")
        check_seconds("grace_seconds", self.grace_seconds)
        check_seconds("lease_seconds", self.lease_seconds)
        if self.lease_seconds == 0:
            raise InvalidInput("lease_seconds=0: a lease has to last for a while")


class Counters(Struct):
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    given_back: int = 0
    stalled: int = 0
