"""Figures that were measured several times, and the rows that say what they mean."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Unit = Literal["/s", "µs", "ms", "s", "bytes", "requests", "round trips", "share"]
Verdict = Literal["pass", "FAIL", "goal met", "goal missed", "", "not measured"]

_DIGITS: dict[Unit, int] = {
    "/s": 0,
    "µs": 1,
    "ms": 2,
    "s": 2,
    "bytes": 0,
    "requests": 4,
    "round trips": 2,
    "share": 2,
}
_SMALL_IS_GOOD: set[Unit] = {"µs", "ms", "s", "bytes", "requests", "round trips"}
_SAID_BY_THE_ROW: set[Unit] = {"requests", "round trips", "share"}


@dataclass(frozen=True, slots=True)
class Series:
    """One figure, as often as it was measured. The best counts, since noise only ever slows."""

    values: tuple[float, ...]
    unit: Unit
    sign: str = ""
    """`<` where a run was cut off and would have been worse than the figure says."""

    @property
    def best(self) -> float:
        return min(self.values) if self.unit in _SMALL_IS_GOOD else max(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        best, median = (f"{value:,.{_DIGITS[self.unit]}f}" for value in (self.best, self.median))
        unit = "" if self.unit in _SAID_BY_THE_ROW else f" {self.unit}".replace(" /", "/")
        return f"{self.sign}{best}{unit}" + (f" ({median})" if len(self.values) > 1 else "")


def series(values: Iterable[float], unit: Unit, sign: str = "") -> Series:
    return Series(tuple(values), unit, sign)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a requirement, what was measured, and whether that is enough."""

    requirement: str
    figure: Series | str
    rival_name: str = ""
    rival: Series | str = ""
    ratio: float | None = None
    bar: str = ""
    verdict: Verdict = ""


def passed(is_good: bool) -> Verdict:
    return "pass" if is_good else "FAIL"


def reached(is_good: bool) -> Verdict:
    """Of a goal, which is wished for and not required."""
    return "goal met" if is_good else "goal missed"
