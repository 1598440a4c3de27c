"""Event loops: plain asyncio is what is compared; uvloop is an extra line, for both sides."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

ASYNCIO: Final = "asyncio"
UVLOOP: Final = "uvloop"


def loops() -> tuple[str, ...]:
    """Those that are installed, the one that counts first."""
    return (ASYNCIO, UVLOOP) if importlib.util.find_spec("uvloop") else (ASYNCIO,)


def run(work: Coroutine[Any, Any, T], loop: str) -> T:
    if loop == ASYNCIO:
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)
