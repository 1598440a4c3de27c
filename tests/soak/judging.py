"""What must hold after a soak, whatever was killed: counted from what everybody was told.

Tellers are the members of the crew; the log is what a fresh reader gets of the queue's events in
the end. A promise is what was told: an enqueue that was answered, a lease that was given, an ack
that was taken. What nobody was told may have happened or not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

ENDS_OF_LEASES: Final = {
    "completed",
    "failed",
    "cancelled",
    "expired",
    "retried",
    "released",
    "snoozed",
}
SHOWN_MAX: Final = 5

Line = tuple[int, str, str, int]
"""One event: its position, kind, job and, of a claim, the fence."""


@dataclass
class Statement:
    """What one member of the crew has told, over all its lives."""

    asked: list[str] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)
    got: list[tuple[str, int]] = field(default_factory=list)
    done: list[tuple[str, int]] = field(default_factory=list)
    seen: list[Line] = field(default_factory=list)
    """Since it was told of a gap the last time."""
    gaps: list[str] = field(default_factory=list)
    """What it was told each time; where nothing was lost or vacuumed, there is none."""
    follows: bool = False

    def add(self, told: dict[str, Any]) -> None:
        match told:
            case {"asked": id}:
                self.asked.append(id)
            case {"queued": id}:
                self.queued.append(id)
            case {"got": id, "fence": fence}:
                self.got.append((id, fence))
            case {"done": id, "fence": fence}:
                self.done.append((id, fence))
            case {"saw": (position, event, id, fence)}:
                self.seen.append((position, event, id, fence))
            case {"gap": said}:
                self.gaps.append(said)
                self.seen.clear()
            case _:
                pass  # that it is ready, or in trouble, promises nothing


@dataclass
class Outcome:
    """How the queue stands in the end."""

    states: dict[str, str]
    log: list[Line]
    is_ordered: bool
    """Whether events have one order over all jobs."""
    forgets: bool = False
    """Whether the server was set back, so that what it had acknowledged may be gone."""


def judge(statements: Sequence[Statement], outcome: Outcome) -> list[str]:
    """Every promise that was broken, in words."""
    found = [
        *_of_jobs(statements, outcome),
        *_of_leases_told(statements, outcome),
        *_of_leases_logged(outcome.log),
        *_of_followers(statements, outcome),
    ]
    if not outcome.forgets:
        found += [*_of_losses(statements, outcome), *_of_acks(statements, outcome)]
        found += [f"a follower was told: {said}" for one in statements for said in one.gaps]
    return found


def _of_jobs(statements: Sequence[Statement], outcome: Outcome) -> Iterator[str]:
    asked = {id for one in statements for id in one.asked}
    yield from _some("jobs that nobody asked for", outcome.states.keys() - asked)
    logged = {id for _, event, id, _ in outcome.log if event == "enqueued"}
    yield from _some("jobs of the log that are not listed", logged - outcome.states.keys())
    unfinished = (
        f"{id} is {state}" for id, state in outcome.states.items() if state != "completed"
    )
    yield from _some("jobs that did not end", unfinished)
    ends = Counter(id for _, event, id, _ in outcome.log if event == "completed")
    wrong = (f"{id}: {ends[id]}" for id in outcome.states if ends[id] != 1)
    yield from _some("jobs that did not end exactly once", wrong)


def _of_losses(statements: Sequence[Statement], outcome: Outcome) -> Iterator[str]:
    queued = {id for one in statements for id in one.queued}
    yield from _some("enqueues that were acknowledged and are gone", queued - outcome.states.keys())


def _of_acks(statements: Sequence[Statement], outcome: Outcome) -> Iterator[str]:
    done = [lease for one in statements for lease in one.done]
    times = Counter(id for id, _ in done)
    yield from _some("jobs whose ack was taken twice", (id for id in times if times[id] > 1))
    winners: dict[str, int] = {}
    claims: dict[str, int] = {}
    for _, event, id, fence in outcome.log:
        if event == "claimed":
            claims[id] = fence
        elif event == "completed" and id in claims:
            winners[id] = claims[id]
    others = (f"{id} by {fence}" for id, fence in done if winners.get(id) != fence)
    yield from _some("acks that were taken from another than the holder", others)
    logged = {(id, fence) for _, event, id, fence in outcome.log if event == "claimed"}
    given = {lease for one in statements for lease in one.got}
    yield from _some("leases that were given and are not in the log", map(str, given - logged))


def _of_leases_told(statements: Sequence[Statement], outcome: Outcome) -> Iterator[str]:
    given = [lease for one in statements for lease in one.got]
    times = Counter(given)
    twice = (f"{id} with {fence}" for (id, fence), told in times.items() if told > 1)
    yield from _some("leases that were given twice", twice)
    if outcome.is_ordered:
        # Other systems take them as tokens, so even another job's must be another.
        jobs = defaultdict(set)
        for id, fence in given:
            jobs[fence].add(id)
        shared = (
            f"{fence} for {' and '.join(sorted(ids))}"
            for fence, ids in jobs.items()
            if len(ids) > 1
        )
        yield from _some("fences that were given for two jobs", shared)


def _of_leases_logged(log: Iterable[Line]) -> Iterator[str]:
    holders: dict[str, int] = {}
    highest: dict[str, int] = defaultdict(int)
    wrong = []
    for position, event, id, fence in log:
        if event == "claimed":
            if id in holders:
                wrong.append(f"{id} at {position}")
            if fence <= highest[id]:
                wrong.append(f"{id} at {position}: the fence went back")
            holders[id] = highest[id] = fence
        elif event in ENDS_OF_LEASES:
            holders.pop(id, None)
    yield from _some("leases that were held by two", wrong)


def _of_followers(statements: Sequence[Statement], outcome: Outcome) -> Iterator[str]:
    for n, one in enumerate(one for one in statements if one.follows):
        missed = set(outcome.log) - set(one.seen)
        invented = set(one.seen) - set(outcome.log)
        yield from _some(f"events that follower {n} was not told", map(str, sorted(missed)))
        yield from _some(f"events that only follower {n} knows", map(str, sorted(invented)))
        if outcome.is_ordered and not missed and not invented and one.seen != outcome.log:
            yield f"follower {n} was told events out of order, or twice"


def _some(what: str, which: Iterable[str]) -> Iterator[str]:
    """One line for a kind of fault, with a few of the cases."""
    cases = list(which)
    if cases:
        shown = ", ".join(cases[:SHOWN_MAX])
        yield f"{len(cases)} {what}: {shown}{', …' if len(cases) > SHOWN_MAX else ''}"
