"""What a check-up finds: one line per question, with an answer that a script can read."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Verdict: TypeAlias = Literal["ok", "warn", "fail", "skip"]


class Check(Struct, frozen=True):
    area: Literal["store", "stored", "now"]
    check: str
    verdict: Verdict
    detail: str = ""
