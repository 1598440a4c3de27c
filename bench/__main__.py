"""Measures what the queue must reach; `python -m bench depth idle` measures only that."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.status import Status

from bench import (
    depth,
    distant,
    idle,
    imports,
    lanes,
    latency,
    pickup,
    postgres,
    records,
    records_redis,
    report,
    spark_kills,
    spark_sink,
    spark_source,
    spark_tables,
    startup,
    tasks,
    throughput,
    workers,
)
from bench.conditions import conditions
from bench.figures import Row
from bench.plan import Plan
from bench.rivals import ROOT, NoRival, Rival, jqueue

MEASURES: Final[dict[str, Callable[[Plan], list[Row]]]] = {
    "throughput": throughput.measure,
    "latency": latency.measure,
    "distant": distant.measure,
    "depth": depth.measure,
    "startup": startup.measure,
    "idle": idle.measure,
    "imports": imports.measure,
    "lanes": lanes.measure,
    "records": records.measure,
    "postgres": postgres.measure,
    "records_redis": records_redis.measure,
    "tasks": tasks.measure,
    "pickup": pickup.measure,
    "workers": workers.measure,
    "spark_kills": spark_kills.measure,
    "spark_sink": spark_sink.measure,
    "spark_source": spark_source.measure,
    "spark_tables": spark_tables.measure,
}
ROUNDS: Final = 3
PROTOTYPE: Final = ROOT.parent / "shared" / "prototype"
WITH_JQUEUE: Final = {"throughput"}
WITH_PROTOTYPE: Final = {"throughput", "latency", "distant", "depth"}


def main() -> int:
    said = _arguments()
    names = said.names or list(MEASURES)
    console = report.console()
    with console.status("looks around") as status:
        found = conditions(said.folder)
        for name, value in found.items():
            console.print(f"{name:>10}  {value}")
        plan = _plan(said, set(names), status)
        rows: list[Row] = []
        for name in names:
            rows += _measured(name, plan, status)
    console.print(report.table(rows))
    report.save(found, rows)
    console.print(f"kept in {report.RESULTS.relative_to(ROOT)}")
    return 1 if any(row.verdict == "FAIL" for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASURES))
    parser.add_argument("--rounds", type=int, help=f"how often to measure ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="one round, and a smaller start-up")
    parser.add_argument("--folder", help="where files are measured (the temporary folder)")
    parser.add_argument("--prototype", type=Path, help="the folder of log_engine.py and deep.py")
    said = parser.parse_args()
    if unknown := set(said.names) - set(MEASURES):
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(MEASURES)}")
    return said


def _plan(said: argparse.Namespace, names: set[str], status: Status) -> Plan:
    say = status.console.print
    prototype: Path | None = said.prototype or Path(os.environ.get("PENSTOCK_PROTOTYPE", PROTOTYPE))
    if prototype and names & WITH_PROTOTYPE and not (prototype / "log_engine.py").exists():
        say(f" prototype  not there ({prototype}): rows against it are left out", style="yellow")
        prototype = None
    rival: Rival | None = None
    if names & WITH_JQUEUE:
        status.update("gets jqueue")
        try:
            rival = jqueue()
            say(f"     rival  {rival.name} on Python {rival.python_version}")
        except NoRival as error:
            say(f"     rival  jqueue can't be had: {error}", style="yellow")
    rounds = said.rounds or (1 if said.quick else ROUNDS)
    return Plan(rounds, said.quick, said.folder, prototype, rival, status.update)


def _measured(name: str, plan: Plan, status: Status) -> list[Row]:
    def say(text: str) -> None:
        status.update(f"{name}: {text}")

    return MEASURES[name](replace(plan, say=say))


if __name__ == "__main__":
    sys.exit(main())
