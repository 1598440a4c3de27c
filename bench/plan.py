"""What a measurement needs to know: how often, where, and against whom."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.rivals import Rival

T = TypeVar("T")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    rounds: int
    is_quick: bool
    folder: str | None
    """Where files are measured; None is the system's place for temporary ones."""
    prototype: Path | None
    jqueue: Rival | None
    say: Say
    """Tells the person who waits what is going on."""

    def scaled(self, count: int, quick_count: int) -> int:
        return quick_count if self.is_quick else count

    def interleaved(self, runs: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
        """Every run once per round, in turn, so that all of them meet the same weather."""
        results: dict[str, list[T]] = {name: [] for name in runs}
        for round in range(1, self.rounds + 1):
            for name, run in runs.items():
                self.say(f"round {round} of {self.rounds}: {name}")
                results[name].append(run())
        return results


def isolated(function: Callable[..., T], *arguments: Any) -> T:
    """The function's result, from a fresh process: no run inherits another's heap or caches."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()
