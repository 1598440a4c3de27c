"""What waits to be claimed: due jobs in their tenants' lanes, the others by when they come due.

The head of a segment waits like a job, in the place of those that are not admitted yet.
"""

from __future__ import annotations

from penstock.kernel.job import Job
from penstock.kernel.order import Ranking
from penstock.kernel.segments import Head
from penstock.kernel.tenancy import Tenancy


class Pending:
    def __init__(self, tenants: dict[str, Tenancy]) -> None:
        self.at = 0.0
        """The time of the newest commit or batch; what is due by then is in the lanes."""
        self.scheduled = Ranking(self._is_current)
        """What is not yet due: (run_at, life)."""
        self._tenants = tenants

    def advance(self, at: float) -> None:
        """Moves what has come due by then to where claims look. No event: time passing."""
        self.at = max(self.at, at)
        scheduled = self.scheduled
        while (entry := scheduled.first()) is not None and entry[0] <= self.at:
            self._make_ready(scheduled.pop_first()[-1])

    def add(self, pending: Job | Head) -> None:
        if pending.run_at <= self.at:
            self._make_ready(pending)
        else:
            self.scheduled.push((pending.run_at, pending.life, pending))

    def note_death(self, pending: Job | Head) -> None:
        """It waits no longer, or as another version."""
        if pending.run_at <= self.at:
            self._tenants[pending.tenant].lanes[pending.queue][pending.type].note_death()
        else:
            self.scheduled.note_death()

    def show(self, head: Head) -> None:
        tenancy = self._tenants.get(head.tenant)
        if tenancy is None:
            tenancy = self._tenants[head.tenant] = Tenancy(head.tenant)
        tenancy.heads[head.id] = head
        self.add(head)

    def hide(self, head: Head) -> None:
        del self._tenants[head.tenant].heads[head.id]
        self.note_death(head)

    def _make_ready(self, pending: Job | Head) -> None:
        place = pending.source or pending.life
        self._tenants[pending.tenant].lane(pending.queue, pending.type).push(
            (pending.priority, pending.run_at, place, pending.row, pending)
        )

    def _is_current(self, pending: Job | Head) -> bool:
        tenancy = self._tenants.get(pending.tenant)
        return tenancy is not None and tenancy.is_current(pending)
