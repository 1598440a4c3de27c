"""`python -m penstock.testing.simulation --seeds 10000`: run many seeds, report those that fail."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time  # the real one, for the rate; the worlds have their own
from collections.abc import Iterator
from functools import partial

from penstock.testing.simulation.run import Report, run_seed

SEEDS_PER_TASK = 20
FAILURES_SHOWN_MAX = 20
LAYOUTS = ("log", "single", "memory", "tasks")


def main() -> int:
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    if arguments.seed is not None:
        return _one(arguments.seed, arguments.layout, verbose=arguments.verbose)
    return _many(arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.simulation")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, twice, with what happened in it")
    parser.add_argument("--layout", choices=LAYOUTS, help="not the seed's own")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--verbose", action="store_true", help="with --seed: the story")
    return parser.parse_args()


def _one(seed: int, layout: str | None, *, verbose: bool) -> int:
    report, again = run_seed(seed, layout), run_seed(seed, layout)
    if verbose:
        print("\n".join(report.notes))
    print(_line(report))
    for violation in report.violations:
        print(f"  {violation}")
    if report.trace != again.trace:
        print(f"  not deterministic: the second run's trace is {again.trace}")
    return 1 if report.violations or report.trace != again.trace else 0


def _many(arguments: argparse.Namespace) -> int:
    started = time.monotonic()  # noqa: TID251 - how long it really takes
    failed: list[Report] = []
    commits = calls = 0
    for done, report in enumerate(_reports(arguments), start=1):
        commits += report.commits
        calls += report.calls
        if report.violations:
            failed.append(report)
            if len(failed) <= FAILURES_SHOWN_MAX:
                _show(report)
        if done % 100 == 0 or done == arguments.seeds:
            rate = done / (time.monotonic() - started)  # noqa: TID251
            sys.stderr.write(
                f"\r{done}/{arguments.seeds} seeds, {len(failed)} failed, {rate:.1f} seeds/s"
            )
            sys.stderr.flush()
    seconds = time.monotonic() - started  # noqa: TID251
    print(
        f"\n{arguments.seeds} seeds in {seconds:.1f} s ({arguments.seeds / seconds:.1f}/s): "
        f"{commits} commits, {calls} calls, {len(failed)} failed"
    )
    if failed:
        print("failed:", *sorted(report.seed for report in failed)[:200])
    return 1 if failed else 0


def _reports(arguments: argparse.Namespace) -> Iterator[Report]:
    seeds = range(arguments.start, arguments.start + arguments.seeds)
    run = partial(run_seed, layout=arguments.layout)
    if arguments.jobs == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.Pool(arguments.jobs, _quiet) as pool:
        yield from pool.imap_unordered(run, seeds, SEEDS_PER_TASK)


def _quiet() -> None:
    logging.disable(logging.CRITICAL)


def _show(report: Report) -> None:
    print(f"\r{_line(report)}")
    for violation in report.violations[:4]:
        print(f"  {str(violation)[:300]}")


def _line(report: Report) -> str:
    return (
        f"seed {report.seed} ({report.layout}): {len(report.violations)} violations, "
        f"{report.commits} commits, {report.calls} calls, {report.seconds:.0f} virtual s, "
        f"{report.steps} steps, trace {report.trace}"
    )


if __name__ == "__main__":
    sys.exit(main())
