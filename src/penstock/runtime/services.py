"""What code asks the outside world for, besides its store: the time, luck and fresh names.

One value, so that the simulator can replace all of it with the products of one seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.ports.clock import Clock
from penstock.runtime.backoff import Backoff, system_luck
from penstock.runtime.clock import SystemClock
from penstock.runtime.identity import random_id, time_ordered_id


@dataclass(frozen=True, slots=True)
class Services:
    clock: Clock = field(default_factory=SystemClock)
    luck: Callable[[], float] = system_luck
    new_secret: Callable[[], str] = random_id
    new_id: Callable[[], str] = time_ordered_id

    def backoff(self, initial_seconds: float, max_seconds: float) -> Backoff:
        return Backoff(initial_seconds, max_seconds=max_seconds, luck=self.luck)
