"""What a batch did to a state: to be taken back, or for an engine that writes back only that.

Such an engine decides on a state that holds no more than the batch touches (`QueueState.adopt`),
and its counters begin at zero, so that what they say afterwards is the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.kernel.job import Job
from penstock.kernel.tenancy import Hold, Scope, Tenancy


class Changes(Struct, frozen=True):
    jobs: list[tuple[Job | None, Job | None]]
    """Each job that changed: as it was found, and as it is now."""
    keys: dict[tuple[str, Scope], Hold | None]
    """Each key that changed hands, by tenant and scope: who held it when it was found."""
    left: Sequence[Job]
    """Jobs that left the live state."""


class Undo:
    """Every step of a batch, oldest first, each with what it found."""

    __slots__ = ("fields", "jobs", "keys", "left", "paused")

    def __init__(self) -> None:
        self.jobs: list[tuple[Tenancy, str, Job | None]] = []
        self.keys: list[tuple[str, Scope, Hold | None]] = []
        self.left: list[Job] = []
        self.paused: list[tuple[str, str, bool]] = []
        self.fields: dict[str, object] = {}

    def net(self) -> Changes:
        """What all steps amount to."""
        found: dict[tuple[Tenancy, str], Job | None] = {}
        for tenancy, id, before in self.jobs:
            found.setdefault((tenancy, id), before)
        holds: dict[tuple[str, Scope], Hold | None] = {}
        for tenant, scope, hold in self.keys:
            holds.setdefault((tenant, scope), hold)
        changed = [(before, tenancy.jobs.get(id)) for (tenancy, id), before in found.items()]
        return Changes(changed, holds, self.left)
