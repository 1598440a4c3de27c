"""What a batch did to a state: to be taken back, or for an engine that writes back only that.

Such an engine decides on a state that holds no more than the batch touches (`QueueState.adopt`),
and its counters begin at zero, so that what they say afterwards is the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from penstock.kernel.departures import Departed
from penstock.kernel.job import Job
from penstock.kernel.tenancy import Hold, Scope, Tenancy


class Changes(Struct, frozen=True):
    jobs: list[tuple[Job | None, Job | None]]
    """Each job that changed: as it was found, and as it is now."""
    keys: dict[tuple[str, Scope], Hold | None]
    """Each key that changed hands, by tenant and scope: who held it when it was found."""
    left: Sequence[Job]
    """Jobs that left the live state."""
    departed: dict[tuple[str, str], Departed]
    """What they left behind, and others that had left elsewhere, by tenant and id."""


class Undo:
    """Every step of a batch, oldest first, each with what it found."""

    __slots__ = ("fields", "jobs", "keys", "left", "paused", "released")

    def __init__(self) -> None:
        self.jobs: list[tuple[Tenancy, str, Job | None]] = []
        self.keys: list[tuple[str, Scope, Hold | None]] = []
        self.left: list[Job] = []
        self.paused: list[tuple[str, str, bool]] = []
        self.released: list[tuple[dict[str, float], str, float | None]] = []
        self.fields: dict[str, object] = {}

    def take_back_released(self) -> None:
        for released, key, released_at in reversed(self.released):
            if released_at is None:
                del released[key]
            else:
                released[key] = released_at

    def net(self, departed: Iterable[tuple[str, str, Departed]]) -> Changes:
        """What all steps amount to."""
        found: dict[tuple[Tenancy, str], Job | None] = {}
        for tenancy, id, before in self.jobs:
            found.setdefault((tenancy, id), before)
        holds: dict[tuple[str, Scope], Hold | None] = {}
        for tenant, scope, hold in self.keys:
            holds.setdefault((tenant, scope), hold)
        changed = [(before, tenancy.jobs.get(id)) for (tenancy, id), before in found.items()]
        remembered = {(tenant, id): one for tenant, id, one in departed}
        return Changes(changed, holds, self.left, remembered)
