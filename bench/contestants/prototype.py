"""The throw-away prototype of the log layout: few semantics, no error handling, the limit to near.

It is not part of this repository. `--prototype` or `PENSTOCK_PROTOTYPE` says where it is.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Raw

from bench.load import JOB_TYPE, PAYLOAD_JSON, Counted, Shape, Timing, drive
from bench.loops import run


class PrototypeContestant:
    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._payload = Raw(PAYLOAD_JSON)

    def enqueue(self) -> Awaitable[object]:
        answer: Awaitable[object] = self._engine.enqueue(JOB_TYPE, self._payload)
        return answer

    def claim(self, n: int) -> Awaitable[Sequence[Any]]:
        answer: Awaitable[Sequence[Any]] = self._engine.claim("bench", n)
        return answer

    def ack(self, jobs: Sequence[Any]) -> Awaitable[object]:
        answer: Awaitable[object] = self._engine.ack(jobs)
        return answer


def on_files(prototype: Path, shape: Shape, folder: str | None, loop: str) -> Timing:
    module = _load(prototype)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        return run(_drive(module, module.LocalStore(place), shape), loop)


def on_a_distant_store(
    prototype: Path, shape: Shape, round_trip_seconds: float, loop: str
) -> Counted:
    module = _load(prototype)
    store = module.LatStore(round_trip_seconds)
    return Counted(run(_drive(module, store, shape), loop), store.n)


async def _drive(module: Any, store: Any, shape: Shape) -> Timing:
    engine = module.Engine(store)
    engine.start()
    try:
        return await drive(PrototypeContestant(engine), shape)
    finally:
        engine.task.cancel()


def _load(prototype: Path) -> Any:
    spec = importlib.util.spec_from_file_location("log_engine", prototype / "log_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
