"""The charter, which holds for all jobs, and a state that goes by it: there and back."""

from __future__ import annotations

from penstock.kernel.state import QueueState
from penstock.wire.record import Charter


def prepared(charter: Charter) -> QueueState:
    """A state in which this holds, and that has no job."""
    state = QueueState()
    state.settings = charter.settings
    state.consumers = charter.consumers
    state.swept_before = charter.swept_before
    state.moves = charter.moves
    for tenant, queues in charter.paused.items():
        for queue in queues:
            state.tenancy(tenant).lanes.pause(queue)
    return state


def charter_of(state: QueueState) -> Charter:
    paused = {
        name: sorted(tenancy.paused)
        for name, tenancy in sorted(state.tenants.items())
        if tenancy.paused
    }
    return Charter(state.settings, paused, state.consumers, state.swept_before, state.moves)
