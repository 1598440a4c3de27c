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
            due = scheduled.pop_first()[-1]
            self._count_scheduled(due, -1)
            self._make_ready(due)
            self._tenants[due.tenant].queue_counts(due.queue).view = None

    def add(self, pending: Job | Head) -> None:
        if pending.run_at <= self.at:
            self._make_ready(pending)
        else:
            self.scheduled.push((pending.run_at, pending.life, pending))
            self._count_scheduled(pending, 1)

    def note_death(self, pending: Job | Head) -> None:
        """It waits no longer, or as another version."""
        if pending.run_at <= self.at:
            self._tenants[pending.tenant].lanes.note_death(pending)
        else:
            self.scheduled.note_death()
            self._count_scheduled(pending, -1)

    def show(self, head: Head) -> None:
        tenancy = self._tenants.get(head.tenant)
        if tenancy is None:
            tenancy = self._tenants[head.tenant] = Tenancy(head.tenant)
        tenancy.heads[head.id] = head
        self.add(head)
        tenancy.queue_counts(head.queue).view = None

    def hide(self, head: Head) -> None:
        tenancy = self._tenants[head.tenant]
        del tenancy.heads[head.id]
        self.note_death(head)
        tenancy.queue_counts(head.queue).view = None

    def _make_ready(self, pending: Job | Head) -> None:
        self._tenants[pending.tenant].lanes.push(pending)

    def _count_scheduled(self, pending: Job | Head, change: int) -> None:
        # A head is no job: those that it stands for are counted from their segment.
        if isinstance(pending, Job):
            scheduled = self._tenants[pending.tenant].scheduled
            types = scheduled.setdefault(pending.queue, {})
            types[pending.type] = types.get(pending.type, 0) + change
            if not types[pending.type]:
                del types[pending.type]
                if not types:
                    del scheduled[pending.queue]

    def _is_current(self, pending: Job | Head) -> bool:
        tenancy = self._tenants.get(pending.tenant)
        return tenancy is not None and tenancy.is_current(pending)
