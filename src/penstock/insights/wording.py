"""Numbers of things, as people say them."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 job`, `2 jobs`, `1,000 jobs`; `many` where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
