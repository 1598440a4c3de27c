"""Event loops: uvloop where it is installed, since it is faster."""

from __future__ import annotations

import asyncio
import importlib.util


def new_loop() -> asyncio.AbstractEventLoop:
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()
