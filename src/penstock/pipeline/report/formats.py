"""Numbers as people read them: thousands separated, units said, no more digits than are known."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

NOTHING: Final = "–"
NARROW_SPACE: Final = "\u202f"
"""Between a number and its unit, where no line may break."""

_DURATIONS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SCALES: Final = ((1e9, "B"), (1e6, "M"), (1e3, "k"))
_BYTES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
COUNT_DIGITS_MAX: Final = 9_999_999


def count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def short_count(value: float) -> str:
    """For headlines and axes, where it has to be read at a glance: 12,345 but 12.3 M."""
    if value <= COUNT_DIGITS_MAX:
        return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    return _scaled(value, _SCALES)


def duration(seconds: float | None) -> str:
    """Three digits that count: 0 s, 4.21 ms, 38.5 s, 12.4 min."""
    if seconds is None:
        return NOTHING
    return f"0{NARROW_SPACE}s" if seconds < 5e-7 else _scaled(seconds, _DURATIONS)


def size(bytes_: float) -> str:
    return _scaled(bytes_, _BYTES) if bytes_ else f"0{NARROW_SPACE}B"


def dollars(value: float | None) -> str:
    """Cents as always; what is less than ten cents with the digits that count."""
    if value is None:
        return NOTHING
    if value >= 0.1 or value == 0:
        return f"${value:,.2f}"
    return f"${value:.{1 - math.floor(math.log10(value))}f}"


def percent(share: float | None) -> str:
    """Never rounded up to 100 %, since one failure of a million is not none."""
    if share is None:
        return NOTHING
    digits = 1 if share < 0.995 else 2
    cut = math.floor(round(share * 100 * 10**digits, 6)) / 10**digits if share < 1 else share * 100
    return f"{cut:.{digits if share < 1 else 0}f}{NARROW_SPACE}%"


def minute(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")


def second(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def span(length: timedelta) -> str:
    """The two greatest units, in words: 7 days, 2 hours."""
    minutes = int(length.total_seconds()) // 60
    parts = ((minutes // 1440, "day"), (minutes // 60 % 24, "hour"), (minutes % 60, "minute"))
    said = [counted(number, unit) for number, unit in parts if number]
    return ", ".join(said[:2]) or "less than a minute"


def counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    scale, unit = next((each for each in units if value >= each[0] * 0.9995), units[-1])
    return f"{_three(value / scale)}{NARROW_SPACE}{unit}"


def _three(value: float) -> str:
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    shown = f"{value:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if digits else shown
