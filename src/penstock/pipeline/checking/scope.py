"""Which invariants a check of a queue can ask about, and why not the others."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.engines.ledger.log.floor import FIRST_SLOT
from penstock.pipeline.checking.laws import ORDER, PAUSES
from penstock.ports.backend import Capabilities

NEVER: Final = {
    1: "what callers were told is not in the log",
    8: "what callers were told is not in the log; that nothing completes after its cancellation is "
    "asked as 7",
    13: "there are no dependencies, callbacks or schedules",
    16: "what readers saw is not in the log",
    18: "it is about several backends",
}


class Asked(Struct, frozen=True, kw_only=True):
    """What is known of a queue before it is checked."""

    capabilities: Capabilities | None
    """None: a log, of which everything can be asked."""
    floor: int
    newest_at: float
    checkpoint: int | None
    """The newest one of a log, if there is one."""

    @property
    def has_commits(self) -> bool:
        """Where order is per job there are none, only positions that are times."""
        return self.capabilities is None or self.capabilities.events == "ordered"

    @property
    def scopes_left_out(self) -> frozenset[str]:
        if self.capabilities is None:
            return frozenset()
        left = {ORDER} if self.capabilities.order != "strict" else set()
        return frozenset(left | ({PAUSES} if self.capabilities.pause != "strict" else set()))

    def not_asked(self) -> dict[int, str]:
        """Invariants by number, and why they are not asked about."""
        reasons = dict(NEVER)
        if self.capabilities is not None:
            reasons[14] = "only a log has checkpoints; `penstock doctor` looks at each job here"
            reasons[15] = (
                "commits are no chain here; only the inside of each is looked at"
                if self.has_commits
                else "events are ordered per job here, and not in commits"
            )
            if ORDER in self.scopes_left_out:
                reasons[11] = "this backend's order is approximate"
            if PAUSES in self.scopes_left_out:
                reasons[12] = "a pause takes effect a little later here"
        elif self.checkpoint is None:
            reasons[14] = "there is no checkpoint yet"
        if self.floor > FIRST_SLOT:
            began = f"jobs that began before commit {self.floor}, where events begin, are left out"
            reasons.setdefault(2, began)
        return dict(sorted(reasons.items()))
