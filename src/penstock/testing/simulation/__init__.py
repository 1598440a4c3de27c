"""The deterministic simulation: many processes, one bad day, and a seed that decides all of it."""

from __future__ import annotations

from penstock.testing.simulation.run import Report, run_seed

__all__ = ["Report", "run_seed"]
