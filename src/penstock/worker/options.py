"""How a worker works, and what it has done."""

from __future__ import annotations

import os
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from penstock.client.arguments import name_tuple
from penstock.errors import InvalidInput
from penstock.kernel.plain import WHOLE_MAX, is_a, plain_seconds, plain_text, plain_whole
from penstock.maintenance.monitor import MonitorOptions
from penstock.worker.adapting import Bounds

AUTO: Final = "auto"
CONCURRENCY: Final = 64
"""How many jobs at once unless told otherwise; `auto` begins with it too."""
PROCESSES: Final = os.cpu_count() or 1


class WorkerOptions(Struct, frozen=True, kw_only=True):
    queues: tuple[str, ...] | None = None
    """Only these; all of the tenant's without."""
    types: tuple[str, ...] | None = None
    """Only jobs of these types; of all that the app has tasks for without."""
    unknown: Literal["wait", "fail"] = "wait"
    """What becomes of jobs that the app has no task for: they wait for a worker that has one, or
    are claimed here and fail for good."""
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
    recycle: int | None = None
    """Drains and ends, to be started again, once so many handlers go on past their attempts."""
    monitor: bool = True
    """Takes its turn at the housekeeping; one of all workers leads."""
    monitoring: MonitorOptions = MonitorOptions()
    """How often it does what, if it leads."""
    name: str | None = None

    def __post_init__(self) -> None:
        for option in ("queues", "types"):
            force_setattr(self, option, name_tuple(option, getattr(self, option)))
        if self.types is not None and not self.types:
            raise InvalidInput("types=(): a worker without types has nothing to claim")
        if plain_text("unknown", self.unknown) not in ("wait", "fail"):
            raise InvalidInput(f"unknown={self.unknown!r}: 'wait' or 'fail'")
        for option in (
            "concurrency",
            "concurrency_min",
            "concurrency_max",
            "processes",
            "jobs_max",
            "recycle",
        ):
            self._check_count(option)
        if self.concurrency_min > self.concurrency_max:
            raise InvalidInput(
                f"concurrency_min={self.concurrency_min} is more than "
                f"concurrency_max={self.concurrency_max}"
            )
        for option in ("grace_seconds", "lease_seconds"):
            force_setattr(self, option, plain_seconds(option, getattr(self, option)))
        if self.lease_seconds == 0:
            raise InvalidInput("lease_seconds=0: a lease has to last for a while")

    def _check_count(self, option: str) -> None:
        value = getattr(self, option)
        if value is None and option in ("jobs_max", "recycle"):
            return
        if option == "concurrency" and is_a(value, str) and str.__str__(value) == AUTO:
            return
        rule = "a worker needs at least 1"
        if option == "concurrency":
            rule += f", or {AUTO!r} to find out how many jobs at once are best"
        count = plain_whole(option, value, 1, WHOLE_MAX, rule)
        force_setattr(self, option, count)

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
