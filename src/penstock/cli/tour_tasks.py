"""The tasks of the tour: each behaves in a way of its own."""

from __future__ import annotations

import os
from typing import Final

from penstock.app.app import App
from penstock.app.context import JobContext
from penstock.cli.tour_costs import FOLDER_VARIABLE, Meter, Notes
from penstock.kernel.retry import RetryPolicy
from penstock.runtime.services import Services

SLOW_SECONDS: Final = 0.02
_SOON: Final = RetryPolicy(initial_seconds=0.2)
_clock: Final = Services().clock

_meter: Final = Meter()

app = App(layer=_meter.layer) if FOLDER_VARIABLE in os.environ else App()
Notes(_meter).keep_for(app)


@app.task
async def quick(number: int) -> int:
    return number


@app.task
async def slow(number: int) -> int:
    await _clock.sleep(SLOW_SECONDS)
    return number


@app.task(retry=_SOON)
async def flaky(number: int, context: JobContext) -> int:
    if context.attempt == 1:
        raise ConnectionError("the first try is lost")
    return number


@app.task(max_attempts=2, retry=_SOON)
async def hopeless(number: int) -> None:
    raise RuntimeError("this never works")


@app.task(delay_seconds=3.0)
async def scheduled(number: int) -> int:
    return number


@app.task(priority=-10)
async def urgent(number: int) -> int:
    return number


@app.task
async def repeated(number: int) -> int:
    return number
