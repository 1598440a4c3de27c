"""Everything that clients asked and were told, in order."""

from __future__ import annotations

from collections.abc import Callable

from penstock.kernel.events import Event
from penstock.kernel.invariants import Call
from penstock.testing.simulation.clocks import EPOCH_SECONDS


class Following:
    """What one follower saw from a position on, until it had to begin anew."""

    def __init__(self, name: str, tenant: str, since: int) -> None:
        self.name = name
        self.tenant = tenant
        self.since = since
        self.seen: list[Event] = []

    @property
    def reached(self) -> int:
        return self.seen[-1].position if self.seen else self.since


class History:
    def __init__(self, head: Callable[[], int], now: Callable[[], float]) -> None:
        self.calls: list[Call] = []
        self.followings: list[Following] = []
        self.surprises: list[str] = []
        """What no client should ever be told."""
        self._head = head
        self._now = now

    def asked(self, client: str, kind: str, tenant: str, operation: str, id: str) -> Call:
        call = Call(
            client, kind, tenant, operation, self._head(), EPOCH_SECONDS + self._now(), id=id
        )
        self.calls.append(call)
        return call

    def answered(self, call: Call) -> None:
        call.answered = self._head()
        call.answered_at = EPOCH_SECONDS + self._now()

    def follow(self, name: str, tenant: str, since: int) -> Following:
        following = Following(name, tenant, since)
        self.followings.append(following)
        return following
