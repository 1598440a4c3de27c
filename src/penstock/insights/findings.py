"""The laws that a stored queue is asked about, and what was found, law by law."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from penstock.insights.checks import Check, Verdict
from penstock.insights.wording import counted
from penstock.kernel import invariants
from penstock.kernel.invariants import Committed, Violation

SHOWN_MAX: Final = 3
"""How many violations of one invariant are quoted."""

Law: TypeAlias = Callable[[Sequence[Committed]], list[Violation]]

OF_THE_CHAIN: Final[dict[str, Law]] = {"log is a chain": invariants.log_is_a_chain}
OF_EVERY_PART: Final[dict[str, Law]] = {"tokens increase": invariants.tokens_increase}
ORDER: Final = "claims follow the order"
"""Promised by those alone whose capabilities say so."""
FROM_THE_BEGINNING: Final[dict[str, Law]] = {
    "leases are exclusive": invariants.leases_are_exclusive,
    "terminal is final": invariants.terminal_is_final,
    "attempts are counted": invariants.attempts_are_counted,
    "keys are unique": invariants.keys_are_unique,
    ORDER: invariants.claims_follow_the_order,
    "pauses hold": invariants.pauses_hold,
}

OF_IMPORTS: Final[dict[str, Law]] = {"imports happen once": invariants.imports_happen_once}
"""From the beginning, too, and with every event of every run."""


class Findings:
    """Violations, counted; the first few of each law are kept to be quoted."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._quoted: dict[str, list[Violation]] = {}

    def add(self, law: str, found: Iterable[Violation]) -> None:
        self._counts.setdefault(law, 0)
        quoted = self._quoted.setdefault(law, [])
        for violation in found:
            self._counts[law] += 1
            if len(quoted) < SHOWN_MAX:
                quoted.append(violation)

    def judge(self, laws: dict[str, Law], log: Sequence[Committed], after: int = 0) -> None:
        """What was found at or before `after` was found, and said, before."""
        for name, law in laws.items():
            self.add(name, (each for each in law(log) if (each.commit or after + 1) > after))

    def checks(self, fine: str) -> Iterator[Check]:
        for law in self._counts:
            yield self.check(law, fine)

    def check(self, law: str, fine: str) -> Check:
        if not self._counts.get(law):
            return stored(law, "ok", fine)
        quoted = "; ".join(str(violation) for violation in self._quoted[law])
        return stored(law, "fail", f"{counted(self._counts[law], 'violation')}: {quoted}")


def stored(check: str, verdict: Verdict, detail: str) -> Check:
    return Check("stored", check, verdict, detail)
