"""The SQL of a store, by name.

Each statement in a `.sql` file begins with `-- name: …`, then says in a sentence what it does and
which parameters it takes. One that others of the file name, in braces, is a part of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from operator import itemgetter
from typing import Final

from penstock.ports.counters import MINUTE_SECONDS, minute_of
from penstock.ports.listing import Page, PageAsked
from penstock.wire.packed import unpack

_MARK: Final = "-- name: "


def statements(package: str, file: str) -> dict[str, str]:
    text = (files(package) / file).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for part in text.split(_MARK)[1:]:
        name, _, rest = part.partition("\n")
        lines = [line for line in rest.splitlines() if not line.startswith("--")]
        found[name.strip()] = "\n".join(lines).strip()
    parts = {name for name in found if any(f"{{{name}}}" in other for other in found.values())}
    for part in parts:
        found = {name: one.replace(f"{{{part}}}", found[part]) for name, one in found.items()}
    return {name: one for name, one in found.items() if name not in parts}


def times_of_survey(at: float, newest_at: float) -> dict[str, float]:
    """Parameters of a statement that says what waits.

    No earlier than the newest commit: minutes that had begun by then are not counted any more.
    """
    at = max(at, newest_at)
    minute = minute_of(at)
    return {"at": at, "minute": minute, "next_minute_at": float((minute + 1) * MINUTE_SECONDS)}


def page_of(asked: PageAsked, shelves: Iterable[Sequence[tuple[int, bytes | None]]]) -> Page:
    """Of what each shelf has: lives in order, as many as are to be looked at, and the bodies of
    those that are asked for.

    Where a shelf has given all it may, there can be more of it behind, so that what others have
    behind that life is for the next page.
    """
    found: list[tuple[int, bytes | None]] = []
    reached: int | None = None
    for rows in shelves:
        found += rows
        if len(rows) == asked.looks_at:
            reached = rows[-1][0] if reached is None else min(reached, rows[-1][0])
    bodies: list[bytes] = []
    for life, body in sorted(found, key=itemgetter(0)):
        if reached is not None and life > reached:
            break
        if body is not None:
            bodies.append(unpack("a listed record", body))
        if len(bodies) == asked.count:
            return Page(bodies, life)
    return Page(bodies, reached)


def migrations(package: str) -> list[str]:
    """The scripts that bring an empty database to this version, first to last."""
    folder = files(package) / "migrations"
    scripts = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [entry.read_text(encoding="utf-8") for _, entry in scripts]
