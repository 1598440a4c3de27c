"""One worker process and jobs that do nothing: against the workers that people use.

Everybody is measured in the same way, by `bench/contest.py`: one client process enqueues all jobs,
then one worker process runs them. End to end is the sum of both. Servers are on loopback with their
own defaults, and docs/benchmarks.md says how the settings were found.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from bench.contestants.workers.penstock import JOBS as JOBS_VARIABLE
from bench.figures import Row, Series, passed, series
from bench.load import Timing
from bench.plan import Plan
from bench.rivals import NoRival, installed, ran
from tests.servers.postgres import running_postgres
from tests.servers.redis import running_redis
from tests.servers.shared import ServerAbsent

JOBS: Final = 20_000
CONCURRENCY: Final = 512
CONCURRENCY_DEFAULT: Final = 64
DRAINED_MIN: Final = 20_000
TIMES_BEST_RIVAL: Final = 2.0
QUICK_SHARE: Final = 4
"""Rivals get so many times fewer jobs in a quick run; their rate hardly depends on it."""
SECONDS_MAX: Final = 180.0
SAID: Final = '{"seconds"'
"""How the line begins that is of interest; some workers print others."""
PENSTOCK: Final = "penstock"
PENSTOCK_DEFAULT: Final = f"penstock, {CONCURRENCY_DEFAULT} at once"

Outcome = Timing | NoRival
NewPlace = Callable[[], str]
"""Gives the address of an empty queue."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A rival: its module, how many jobs it gets, and where its jobs are kept."""

    name: str
    module: str
    jobs: int
    server: str = "redis"
    environment: Mapping[str, str] = field(default_factory=dict)
    counts: bool = True
    """Whether it is among those that the bar speaks of."""


CONTENDERS: Final = (
    Contender("celery", "celery", 4_000),
    Contender("rq", "rq", 2_000),
    Contender("dramatiq", "dramatiq", 10_000),
    Contender("huey", "huey", 10_000),
    Contender("saq", "saq", 8_000),
    Contender("arq", "arq", 8_000),
    Contender("pgqueuer, batches of 10", "pgqueuer", JOBS, "postgres", {"BENCH_CLAIM": "10"}),
    Contender(
        "pgqueuer, batches of 200", "pgqueuer", JOBS, "postgres", {"BENCH_CLAIM": "200"}, False
    ),
)


def measure(plan: Plan) -> list[Row]:
    plan.say("gets the rivals")
    runs: dict[str, Callable[[], Outcome]] = {
        PENSTOCK: partial(penstock_timing, plan.folder, JOBS, CONCURRENCY),
        PENSTOCK_DEFAULT: partial(penstock_timing, plan.folder, JOBS, CONCURRENCY_DEFAULT),
    }
    with ExitStack() as stack:
        try:
            python, places = installed(), stack.enter_context(_servers(plan))
        except (NoRival, ServerAbsent) as absent:
            plan.say(f"goes without rivals: {absent}")
        else:
            for rival in CONTENDERS:
                jobs = plan.scaled(rival.jobs, rival.jobs // QUICK_SHARE)
                runs[rival.name] = partial(tried, python, rival, jobs, places[rival.server])
        return rows_of(plan.interleaved(runs))


def rows_of(outcomes: Mapping[str, list[Outcome]]) -> list[Row]:
    timings = {name: _complete(runs) for name, runs in outcomes.items()}
    drained, whole = _drained(timings[PENSTOCK]), _end_to_end(timings[PENSTOCK])
    default = timings[PENSTOCK_DEFAULT]
    rows = [
        Row(
            f"one worker, {JOBS:,} no-ops: drained",
            drained,
            bar=f"≥ {DRAINED_MIN:,}/s",
            verdict=passed(drained.best >= DRAINED_MIN),
        ),
        Row(f"one worker, {CONCURRENCY_DEFAULT} at once: drained", _drained(default)),
        Row(f"one worker, {CONCURRENCY_DEFAULT} at once: end to end", _end_to_end(default)),
    ]
    for rival in CONTENDERS:
        theirs = timings.get(rival.name, [])
        rows.append(_beside("drained", drained, rival.name, _drained(theirs)))
        rows.append(_beside("end to end", whole, rival.name, _end_to_end(theirs)))
    return [*rows, _against_the_best(whole, timings)]


def penstock_timing(folder: str | None, jobs: int, concurrency: int) -> Timing:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        return penstock_timing_at((Path(place) / "queue").as_uri(), jobs, concurrency)


def penstock_timing_at(url: str, jobs: int, concurrency: int) -> Timing:
    """One client process, then one worker process as people start it."""
    module = [sys.executable, "-m", "bench.contestants.workers", "penstock", "enqueue"]
    enqueue_seconds = said_seconds([*module, "--url", url, "--jobs", str(jobs)], {})
    worker = [sys.executable, "-m", "penstock", "worker"]
    worker += ["bench.contestants.workers.penstock:app", "--url", url]
    worker += ["--concurrency", str(concurrency), "--jobs-max", str(jobs)]
    worker += ["--log-level", "warning"]
    return Timing(jobs, enqueue_seconds, said_seconds(worker, {JOBS_VARIABLE: str(jobs)}))


def tried(python: Path, rival: Contender, jobs: int, new_place: NewPlace) -> Outcome:
    """A rival that fails leaves its rows empty and the others theirs."""
    module = [str(python), "-m", "bench.contestants.workers", rival.module]
    asked = ["--url", new_place(), "--jobs", str(jobs)]
    try:
        enqueue_seconds = said_seconds([*module, "enqueue", *asked], rival.environment)
        drain_seconds = said_seconds([*module, "work", *asked], rival.environment)
        return Timing(jobs, enqueue_seconds, drain_seconds)
    except NoRival as error:
        return error


def said_seconds(command: list[str], environment: Mapping[str, str]) -> float:
    for line in ran(command, environment, SECONDS_MAX).splitlines():
        if line.startswith(SAID):
            return float(json.loads(line)["seconds"])
    raise NoRival("it did not say how long it took")


@contextmanager
def _servers(plan: Plan) -> Iterator[dict[str, NewPlace]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=plan.folder)))
        redis = stack.enter_context(running_redis(folder))
        postgres = stack.enter_context(running_postgres(folder))

        def empty_redis() -> str:
            redis.empty()
            return redis.url

        yield {"redis": empty_redis, "postgres": postgres.new_database}


def _beside(what: str, ours: Series, name: str, theirs: Series) -> Row:
    requirement = f"one worker: {what}"
    if not theirs.values:
        return Row(requirement, ours, name, "not to be had")
    return Row(requirement, ours, name, theirs, ours.best / theirs.best)


def _against_the_best(ours: Series, timings: Mapping[str, list[Timing]]) -> Row:
    requirement = "one worker: end to end, beside the best"
    bar = f"≥ {TIMES_BEST_RIVAL:g}× the best"
    rated = [
        (_end_to_end(timings[rival.name]), rival.name)
        for rival in CONTENDERS
        if rival.counts and timings.get(rival.name)
    ]
    if not rated:
        return Row(requirement, ours, "rivals", "not to be had", None, bar, "not measured")
    theirs, name = max(rated, key=lambda found: found[0].best)
    ratio = ours.best / theirs.best
    return Row(requirement, ours, name, theirs, ratio, bar, passed(ratio >= TIMES_BEST_RIVAL))


def _complete(runs: list[Outcome]) -> list[Timing]:
    return [run for run in runs if isinstance(run, Timing)]


def _drained(timings: list[Timing]) -> Series:
    return series((timing.drains_per_second for timing in timings), "/s")


def _end_to_end(timings: list[Timing]) -> Series:
    return series((timing.jobs_per_second for timing in timings), "/s")
