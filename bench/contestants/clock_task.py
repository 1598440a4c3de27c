"""An app whose only task answers when it was started, by the clock that all processes share."""

from __future__ import annotations

import time

import penstock

app = penstock.App()


@app.task
async def started_at() -> float:
    return time.monotonic()
