"""The SQL of this folder, made for one schema."""

from __future__ import annotations

from typing import Final

from penstock.engines.records.statements import statements

_LOCK: Final = "FOR UPDATE SKIP LOCKED"
COLLISION_MILLISECONDS: Final = 50
"""Longer than a turn has what another writes: who has it for longer may have it for hours."""
_HURRY: Final = f", set_config('lock_timeout', '{COLLISION_MILLISECONDS}ms', true)"


class Statements:
    """By name; those that look for a turn's records once with locks and once without."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        """A plain name, so that it needs no quotes."""
        self.fragments = statements(__package__, "fragments.sql")
        self.locking = self._made("finding.sql", _LOCK)
        self.finding = self._made("finding.sql", "")
        self.looking = self._made("looking.sql")
        self.writing = self._made("writing.sql")
        self.objects = self._made("objects.sql")

    def _made(self, file: str, lock: str = "") -> dict[str, str]:
        return {
            name: self._filled(text, lock) for name, text in statements(__package__, file).items()
        }

    def _filled(self, text: str, lock: str) -> str:
        for name, fragment in self.fragments.items():
            text = text.replace(f"{{{name}}}", fragment)
        text = text.replace("{lock_job}", lock.replace("UPDATE", "UPDATE OF job"))
        text = text.replace("{lock}", lock).replace("{hurry}", _HURRY if lock else "")
        return text.replace("{schema}", self.schema)
