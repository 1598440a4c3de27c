"""The SQL of a store, by name.

Each statement in a `.sql` file begins with `-- name: …`, then says in a sentence what it does and
which parameters it takes.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

_MARK: Final = "-- name: "


def statements(package: str, file: str) -> dict[str, str]:
    text = (files(package) / file).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for part in text.split(_MARK)[1:]:
        name, _, rest = part.partition("\n")
        lines = [line for line in rest.splitlines() if not line.startswith("--")]
        found[name.strip()] = "\n".join(lines).strip()
    return found


def migrations(package: str) -> list[str]:
    """The scripts that bring an empty database to this version, first to last."""
    folder = files(package) / "migrations"
    scripts = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [entry.read_text(encoding="utf-8") for _, entry in scripts]
