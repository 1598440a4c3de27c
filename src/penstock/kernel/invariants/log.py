"""What must hold of the committed log by itself. Each function takes the log from its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from msgspec import Struct

from penstock.kernel.events import (
    UNDECODABLE,
    Adopted,
    Cancelled,
    Claimed,
    Completed,
    Enqueued,
    Extended,
    Failed,
    JobEvent,
    Paused,
    Progressed,
    Replayed,
    Resumed,
    Retried,
    position_of,
)
from penstock.kernel.invariants.record import (
    ATTEMPT_ENDS,
    ENDS,
    FAILURES,
    RETURNS,
    Committed,
    Violation,
    about,
    job_events,
)
from penstock.kernel.job import State
from penstock.kernel.stamps import Stamp, next_stamp, stamp_of


def lives_begin_once(log: Iterable[Committed]) -> list[Violation]:
    """2. No job from nowhere: what happens to a life comes after the one event that began it."""
    found: list[Violation] = []
    begun: set[tuple[str, str, int]] = set()
    for commit, event in job_events(log):
        life = (event.tenant, event.id, event.life)
        if isinstance(event, Enqueued):
            if life in begun:
                found.append(about(2, commit, event, "its life began twice"))
            begun.add(life)
        elif life not in begun:
            found.append(about(2, commit, event, f"{event.event}, but its life never began"))
    return found


def leases_are_exclusive(log: Iterable[Committed]) -> list[Violation]:
    """4. At most one live lease per job at every log position."""
    found: list[Violation] = []
    running: dict[tuple[str, str], int] = {}
    for commit, event in job_events(log):
        job = (event.tenant, event.id)
        match event:
            case Claimed():
                if job in running:
                    found.append(about(4, commit, event, "claimed while another lease is live"))
                running[job] = event.attempt
            case Extended() | Progressed():
                if running.get(job) != event.attempt:
                    found.append(about(4, commit, event, "a lease that is not live was extended"))
            case Cancelled():
                running.pop(job, None)
            case Enqueued():
                if job in running:
                    found.append(about(4, commit, event, "a new life while a lease is live"))
                running.pop(job, None)
                if isinstance(event, Adopted) and event.lease is not None:
                    running[job] = event.attempt
            case _ if event.__class__ in ATTEMPT_ENDS:
                if running.pop(job, None) != event.attempt:  # type: ignore[union-attr]  # ends have it
                    found.append(about(4, commit, event, f"{event.event} without a live lease"))
            case _:
                pass
    return found


def tokens_increase(log: Iterable[Committed]) -> list[Violation]:
    """5. Lease tokens are unique and strictly increase per job."""
    found: list[Violation] = []
    newest: dict[tuple[str, str], int] = {}
    fences: set[int] = set()
    for commit, event in job_events(log):
        job = (event.tenant, event.id)
        if isinstance(event, Adopted):
            brought = event.lease or event.ended_lease
            newest[job] = 0 if brought is None else brought.fence
        if not isinstance(event, Claimed):
            continue
        fence = event.lease.fence
        if fence in fences:
            found.append(about(5, commit, event, f"fence {fence} was given out twice"))
        if fence <= newest.get(job, 0):
            found.append(about(5, commit, event, f"fence {fence} does not increase"))
        if event.life > event.position:
            found.append(about(5, commit, event, "a lease on a life that has not begun"))
        fences.add(fence)
        newest[job] = fence
    return found


def terminal_is_final(log: Iterable[Committed]) -> list[Violation]:
    """7. Terminal jobs never change, but for a recorded `replayed`."""
    found: list[Violation] = []
    ended: dict[tuple[str, str], JobEvent | None] = {}
    lives: dict[tuple[str, str], int] = {}
    for commit, event in job_events(log):
        job = (event.tenant, event.id)
        end = ended.get(job)
        if isinstance(event, Enqueued):
            if job in ended and end is None:
                found.append(about(7, commit, event, "a new life before the old one ended"))
            is_over = isinstance(event, Adopted) and event.state.is_terminal
            ended[job], lives[job] = event if is_over else None, event.life
            continue
        if lives.get(job) != event.life:
            found.append(about(7, commit, event, f"{event.event} of a life that is not current"))
        if isinstance(event, Replayed):
            if end is None or _completed(end):
                found.append(about(7, commit, event, "replayed, but it had neither failed nor was"))
            ended[job] = None
        elif event.event in ("archived", "unarchived"):
            if end is None:
                found.append(about(7, commit, event, f"{event.event} before it ended"))
        elif end is not None:
            found.append(about(7, commit, event, f"{event.event} after it was {end.event}"))
        elif event.__class__ in ENDS:
            ended[job] = event
    return found


def _completed(end: JobEvent) -> bool:
    return isinstance(end, Completed) or (isinstance(end, Adopted) and end.state is State.COMPLETED)


class _Attempts:
    """What is counted of one job."""

    __slots__ = ("attempt", "failures", "max_attempts", "run_at")

    def __init__(self, event: Enqueued) -> None:
        self.attempt = event.attempt if isinstance(event, Adopted) else 0
        self.failures = event.failures if isinstance(event, Adopted) else 0
        self.max_attempts = event.max_attempts
        self.run_at = event.run_at


def attempts_are_counted(log: Iterable[Committed]) -> list[Violation]:
    """9. `attempt` is the number of leases granted; no start before `run_at`; failures never
    exceed `max_attempts`."""
    found: list[Violation] = []
    jobs: dict[tuple[str, str], _Attempts] = {}
    for commit, event in job_events(log):
        if isinstance(event, Enqueued):
            jobs[event.tenant, event.id] = _Attempts(event)
            continue
        job = jobs.get((event.tenant, event.id))
        if job is None:
            continue  # a job from nowhere is the second invariant's business
        found += [about(9, commit, event, message) for message in _miscounted(job, event)]
    return found


def _miscounted(job: _Attempts, event: JobEvent) -> Iterable[str]:
    if isinstance(event, Claimed):
        job.attempt += 1
        if event.attempt != job.attempt:
            yield f"lease number {job.attempt} is called attempt {event.attempt}"
        if event.at < job.run_at:
            yield f"started {job.run_at - event.at:.3f} s before it was due"
    elif isinstance(event, Replayed):
        job.failures = 0
        job.run_at = event.run_at
    elif event.__class__ in ATTEMPT_ENDS:
        job.failures += event.__class__ in FAILURES
        if event.failures != job.failures:  # type: ignore[union-attr]  # ends have it
            yield f"failure number {job.failures} is counted as {event.failures}"  # type: ignore[union-attr]
        if job.failures > job.max_attempts:
            yield f"it failed {job.failures} times, {job.max_attempts} were allowed"
        if event.__class__ in RETURNS:
            job.run_at = event.run_at  # type: ignore[union-attr]  # what returns says when
            if job.failures >= job.max_attempts:
                yield "it was to be tried again after its last attempt"


class _Holder(Struct):
    id: str
    life: int
    at: float
    until: float
    stamp: Stamp
    """Of the last that happened to it."""
    is_live: bool = True

    def keeps_from(self, event: Enqueued | Replayed, clock: float) -> bool:
        """By its own time and by that of the other: where jobs have no common time, they differ.

        One that began after what comes after it was written to by a clock that was ahead. And to
        whoever has such a clock a day has passed since another one was noted there, so that what
        was to last for seconds is over.
        """
        if self.life == event.life:
            return False
        if self.is_live:
            return True
        has_time = max(event.at, next_stamp(self.stamp, clock).at) < self.until
        # It passes to the next life of its id.
        return self.id != event.id and self.at <= event.at and has_time


def keys_are_unique(log: Iterable[Committed]) -> list[Violation]:
    """10. At most one live job per live key, per scope; never across tenants."""
    found: list[Violation] = []
    holders: dict[tuple[str, str, str, str], _Holder] = {}
    keyed: dict[tuple[str, str], tuple[str, float]] = {}
    for commit, event in job_events(log):
        job = (event.tenant, event.id)
        if isinstance(event, Enqueued):
            if event.key is None:
                keyed.pop(job, None)
                continue
            keyed[job] = (event.key, event.key_until or -inf)
        if job not in keyed:
            continue
        key, until = keyed[job]
        scope = (event.tenant, event.queue, event.type, key)
        stamp, holder = stamp_of(commit.at, commit.clock), holders.get(scope)
        if isinstance(event, Adopted) and event.state.is_terminal:
            continue  # what it may still hold was carried by itself
        if isinstance(event, Enqueued | Replayed):
            if holder is not None and holder.keeps_from(event, stamp.clock):
                found.append(about(10, commit, event, f"its key {key!r} is held by {holder.id!r}"))
            holders[scope] = _Holder(event.id, event.life, event.at, until, stamp)
        elif holder is not None and holder.life == event.life:
            holder.stamp = stamp
            if isinstance(event, Completed | Failed | Cancelled):
                holder.is_live = False
    return found


def pauses_hold(log: Iterable[Committed]) -> list[Violation]:
    """12. Limits hold at every commit. No claim commits after a pause."""
    found: list[Violation] = []
    paused: set[tuple[str, str]] = set()
    for commit in log:
        for event in commit.events:
            if isinstance(event, Paused):
                paused.add((event.tenant, event.queue))
            elif isinstance(event, Resumed):
                paused.discard((event.tenant, event.queue))
            elif isinstance(event, Claimed) and (event.tenant, event.queue) in paused:
                found.append(about(12, commit, event, f"claimed, but {event.queue!r} is paused"))
    return found


def log_is_a_chain(log: Iterable[Committed]) -> list[Violation]:
    """15. Slots are contiguous, epochs and times do not decrease, the chain holds."""
    found: list[Violation] = []
    before: Committed | None = None
    for commit in log:
        number = commit.commit
        for index, event in enumerate(commit.events):
            if event.position != position_of(number, index):
                found.append(Violation(15, f"event {index} says {event.position}", number))
            if event.at != commit.at:
                found.append(Violation(15, f"event {index} has another time", number))
        if before is not None:
            if number != before.commit + 1:
                found.append(Violation(15, f"it follows commit {before.commit}", number))
            if commit.at < before.at:
                found.append(
                    Violation(15, f"its time is {before.at - commit.at:.3f} s back", number)
                )
            elif commit.clock is not None and not _follows(before, commit):
                found.append(Violation(15, "its time is not what its clock says", number))
            if commit.epoch < before.epoch:
                found.append(Violation(15, "its epoch is over", number))
            if commit.previous != before.chain:
                found.append(Violation(15, "it does not continue the commit before it", number))
        before = commit
    return found


def _follows(before: Committed, commit: Committed) -> bool:
    """Whether time went on by what has elapsed."""
    assert commit.clock is not None
    return commit.at == next_stamp(stamp_of(before.at, before.clock), commit.clock).at


def times_are_the_stores(log: Iterable[Committed], allowed_seconds: float) -> list[Violation]:
    """15. No commit is dated further ahead of the store's own clock than clocks may differ."""
    found: list[Violation] = []
    latest = -inf
    for commit in log:
        # Nor can it be helped that a time is ahead when an earlier commit was.
        latest = max(latest, commit.stored_at or inf)
        clock = commit.at if commit.clock is None else commit.clock
        if clock > latest + allowed_seconds:
            ahead = clock - latest
            found.append(
                Violation(15, f"it is dated {ahead:.3f} s ahead of the store", commit.commit)
            )
    return found


def values_can_be_read(log: Iterable[Committed], read: Callable[[Any], object]) -> list[Violation]:
    """20. Every payload and result decodes; `read` raises for bytes that don't.

    Nor has anybody who claimed it said that it does not, as of a large one that is gone.
    """
    found: list[Violation] = []
    for commit, event in job_events(log):
        if isinstance(event, Retried | Failed) and event.kind == UNDECODABLE:
            found.append(about(20, commit, event, f"its payload can't be read: {event.error}"))
        if isinstance(event, Enqueued):
            what, value = "payload", event.payload
        elif isinstance(event, Completed):
            what, value = "result", event.result
        else:
            continue
        try:
            read(value)
        except Exception as error:  # noqa: BLE001  # whatever it is, nobody can read it
            found.append(about(20, commit, event, f"its {what} can't be read: {error}"))
    return found
