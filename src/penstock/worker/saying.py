"""What a worker says in the log about the jobs it runs, each time with the facts of the job."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from penstock.app.context import facts_of
from penstock.kernel.job import Job
from penstock.runtime.watchdog import Blockage
from penstock.worker.endings import Ending, FailedAttempt, GivenBack, Stalled, Succeeded
from penstock.worker.running import Run

logger = logging.getLogger("penstock.worker")

_ENDINGS: Final[dict[type[Ending], str]] = {
    Succeeded: "completed",
    FailedAttempt: "failed",
    GivenBack: "was given back",
    Stalled: "lost its lease",
}


def say_failed(ending: FailedAttempt, now: float) -> None:
    """At WARNING if it will be tried again, with when; at ERROR, with where, if it is final."""
    job, facts = ending.job, facts_of(ending.job)
    if ending.is_final:
        logger.error(
            "job failed for good: %s", ending.message, extra=facts, exc_info=ending.loggable_error
        )
        return
    due = datetime.fromtimestamp(job.run_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    logger.warning(
        "job failed: %s; again in %.1f s, at %s UTC",
        ending.message, max(0.0, job.run_at - now), due, extra={**facts, "run_at": job.run_at},
    )  # fmt: skip


def says_endings() -> bool:
    """Whether anybody wants a line for each attempt that ended."""
    return logger.isEnabledFor(logging.DEBUG)


def say_ended(ending: Ending, seconds: float) -> None:
    """How any attempt ended, and how long after it was claimed."""
    facts = {**facts_of(ending.job), "seconds": seconds}
    logger.debug("job %s after %.3f s", _ENDINGS[type(ending)], seconds, extra=facts)


def say_ignored(job: Job) -> None:
    logger.warning("job ignores that its time is up", extra=facts_of(job))


def say_lingers(job: Job, stuck: int, limit: int) -> None:
    logger.warning(
        "a thread goes on although its attempt is over; %d of %d places are taken so",
        stuck, limit, extra=facts_of(job),
    )  # fmt: skip


def say_blocked(runs: Iterable[Run], blockage: Blockage) -> None:
    """Called in a thread while the loop stands still, so nothing changes under it."""
    run = next((run for run in runs if run.task is blockage.task), None)
    logger.warning(
        "%s has blocked the event loop for %.1f s, at %s; it keeps every other job waiting",
        "a job" if run is not None else "something outside of jobs",
        blockage.seconds, blockage.place, extra=None if run is None else facts_of(run.job),
    )  # fmt: skip


def say_loop_ends() -> None:
    logger.error(
        "the event loop is taken down around the worker, as after a SystemExit in a callback: "
        "what it ran comes back when the leases have run out"
    )
