"""Seeds that once failed, by layout (None: the seed's own), and what they found."""

from __future__ import annotations

REGRESSIONS: dict[tuple[int, str | None], str] = {}
