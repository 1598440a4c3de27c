"""What must hold between the log and what clients asked and were told.

A `Call` says how many commits were durable when it was asked and when it was answered. What a
call changed stands in a commit between the two; what it only saw is right as of one of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from penstock.kernel.departures import REMEMBERED_SECONDS
from penstock.kernel.events import (
    Admitted,
    Claimed,
    Completed,
    Enqueued,
    Event,
    Expired,
    JobEvent,
    commit_of,
)
from penstock.kernel.invariants.record import (
    ATTEMPT_ENDS,
    Call,
    Committed,
    Violation,
    job_events,
)
from penstock.kernel.job import State
from penstock.kernel.transitions import OPERATIONS_KEPT, state_after

Lapse: TypeAlias = Callable[[JobEvent, float], bool]
"""Whether a job with that last event may have left the live state by a time."""


class Stories:
    """Every job's events and the state after each, to ask how it was as of a commit."""

    def __init__(self, log: Iterable[Committed]) -> None:
        self._events: dict[tuple[str, str], list[JobEvent]] = {}
        self._states: dict[tuple[str, str], list[State]] = {}
        self.claims: dict[int, Claimed] = {}
        """By fence."""
        self.ends: dict[int, JobEvent] = {}
        """What ended the attempt with that fence."""
        self.operations: dict[str, list[Claimed]] = {}
        fences: dict[tuple[str, str], int] = {}
        for _, event in job_events(log):
            job = (event.tenant, event.id)
            self._note(job, event)
            if isinstance(event, Claimed):
                fences[job] = event.lease.fence
                self.claims[event.lease.fence] = event
                self.operations.setdefault(event.operation, []).append(event)
            elif event.__class__ in ATTEMPT_ENDS and job in fences:
                self.ends[fences.pop(job)] = event

    def _note(self, job: tuple[str, str], event: JobEvent) -> None:
        states = self._states.setdefault(job, [])
        before = None if isinstance(event, Enqueued) or not states else states[-1]
        # An event that can't happen is the log's own invariants' business.
        states.append(state_after(before, event) or before or State.PENDING)
        self._events.setdefault(job, []).append(event)

    def jobs(self) -> Iterator[tuple[str, str]]:
        return iter(self._events)

    def of(self, tenant: str, id: str) -> Sequence[JobEvent]:
        return self._events.get((tenant, id), ())

    def between(self, call: Call) -> list[JobEvent]:
        """What happened to the call's job between asking and answering."""
        return [
            event
            for event in self.of(call.tenant, call.id)
            if call.asked < commit_of(event.position) <= (call.answered or 0)
        ]

    def last(self, tenant: str, id: str) -> tuple[JobEvent, State] | None:
        events = self.of(tenant, id)
        return (events[-1], self._states[tenant, id][-1]) if events else None

    def states_within(self, call: Call, id: str) -> Iterator[tuple[JobEvent | None, State | None]]:
        """How a job was as of each commit that the answer may be of; (None, None): unknown."""
        events = self.of(call.tenant, id)
        commits = [commit_of(event.position) for event in events]
        first = bisect_right(commits, call.asked) - 1
        last = bisect_right(commits, call.answered or call.asked) - 1
        for index in range(first, last + 1):
            if index < 0:
                yield None, None
            else:
                yield events[index], self._states[call.tenant, id][index]


def told_is_durable(stories: Stories, calls: Iterable[Call]) -> list[Violation]:
    """1. Every acknowledged enqueue is in the log, and in the end is terminal or live."""
    found: list[Violation] = []
    for call in calls:
        if call.kind != "enqueue" or not call.succeeded:
            continue
        if call.answer == "queued":
            if not any(event.event == "enqueued" for event in stories.between(call)):
                found.append(_of(1, call, "it was acknowledged and is not in the log"))
        elif not stories.of(call.tenant, call.answer_id):
            found.append(_of(1, call, f"it was said to be a duplicate of {call.answer_id!r}"))
    return found


def jobs_were_asked_for(stories: Stories, calls: Iterable[Call]) -> list[Violation]:
    """2. Every claimed or terminal job was enqueued by somebody's attempted enqueue.

    So was each of its lives.
    """
    asked, operations, runs = set(), set(), set()
    for call in calls:
        if call.kind == "enqueue":
            asked.add((call.tenant, call.id))
            operations.add((call.tenant, call.id, call.operation))
        elif call.kind == "publish":
            runs.add(call.operation)
    found = []
    for tenant, id in stories.jobs():
        first = stories.of(tenant, id)[0]
        is_imported = isinstance(first, Admitted) and first.run in runs
        if (tenant, id) not in asked and not is_imported:
            found.append(Violation(2, "nobody asked for it", None, tenant, id))
        if not isinstance(first, Enqueued):
            found.append(Violation(2, f"it begins with {first.event}", None, tenant, id))
        for event in stories.of(tenant, id):
            operation = event.operation if isinstance(event, Enqueued) else None
            if operation is not None and (tenant, id, operation) not in operations:
                message = f"nobody asked for it by {operation!r}"
                found.append(Violation(2, message, None, tenant, id, event.position))
    return found


def operations_happen_once(
    stories: Stories, calls: Sequence[Call], has_lapsed: Lapse, *, is_atomic: bool = True
) -> list[Violation]:
    """3. One operation id makes at most one job, and one claim's leases, also after unknown
    outcomes; and what was certainly refused did not happen.

    A caller who asks again when the job has long left begins a new life; the queue by itself
    never does. Another operation begins one where the job is dead. What one claim gets stands in
    one commit where batches are atomic.
    """
    found: list[Violation] = []
    by_job: dict[tuple[str, str], list[Call]] = {}
    claims: dict[str, list[Call]] = {}
    for call in calls:
        if call.kind == "enqueue":
            by_job.setdefault((call.tenant, call.id), []).append(call)
        elif call.kind == "claim":
            claims.setdefault(call.operation, []).append(call)
    for (tenant, id), asked in by_job.items():
        begun = [event for event in stories.of(tenant, id) if isinstance(event, Enqueued)]
        # Those that say by which operation are looked at one by one.
        lives = sum(event.operation is None for event in begun)
        operations = {call.operation for call in asked}
        was_forgotten = lives <= len(asked) and _was_forgotten(stories, tenant, id, has_lapsed)
        if lives > len(operations) and not was_forgotten:
            found.append(_of(3, asked[0], f"{len(operations)} enqueues made {lives} jobs"))
        found += [
            _of(3, asked[0], f"{operation!r} made more than one job")
            for operation in _made_twice(stories.of(tenant, id), has_lapsed)
        ]
        if begun and all(call.is_certain for call in asked):
            found.append(_of(3, asked[0], f"{asked[0].answer}, and yet it was enqueued"))
        first = asked[0]
        is_denied = first.answer != "queued" and first.answer_id == id
        if len(asked) == 1 and first.succeeded and is_denied:
            found.append(_of(3, first, "the only enqueue was told that it was another's"))
    found += _claims_happen_once(stories, claims, is_atomic=is_atomic)
    return found


def leases_are_given_back(stories: Stories, calls: Iterable[Call]) -> list[Violation]:
    """19. Every lease is held by a live caller, given back, or run out: none is held by nobody.

    A claim that is answered with `left` was cancelled while the store was well, and its handle was
    closed behind it. Then it did not run out, either: it was given back.
    """
    found: list[Violation] = []
    for call in calls:
        if call.kind != "claim" or call.answer != "left":
            continue
        for claimed in stories.operations.get(call.operation, ()):
            end = stories.ends.get(claimed.lease.fence)
            if end is None or isinstance(end, Expired):
                found.append(_of(19, call, f"its caller has left and {claimed.id!r} is still held"))
    return found


def _made_twice(events: Sequence[JobEvent], has_lapsed: Lapse) -> Iterator[str]:
    """Operations that began a life although they were to be remembered from an earlier one."""
    remembered: list[str] = []
    before: JobEvent | None = None
    for event in events:
        if isinstance(event, Enqueued):
            if before is not None and has_lapsed(before, event.at - REMEMBERED_SECONDS):
                remembered.clear()
            if event.operation is not None:
                if event.operation in remembered[-OPERATIONS_KEPT:]:
                    yield event.operation
                remembered.append(event.operation)
        before = event


def _was_forgotten(stories: Stories, tenant: str, id: str, has_lapsed: Lapse) -> bool:
    """Whether each life of the id began when the one before may have left."""
    events = stories.of(tenant, id)
    return all(
        has_lapsed(before, event.at)
        for before, event in pairwise(events)
        if isinstance(event, Enqueued)
    )


def _claims_happen_once(
    stories: Stories, claims: dict[str, list[Call]], *, is_atomic: bool
) -> list[Violation]:
    found: list[Violation] = []
    for operation, granted in stories.operations.items():
        first = granted[0]
        calls = claims.get(operation)
        if calls is None:
            found.append(
                Violation(3, "a lease that nobody asked for", None, first.tenant, first.id)
            )
            continue
        commits = sorted({commit_of(claimed.position) for claimed in granted})
        is_split = len(commits) > len(calls) or not _follow_each_other(stories, granted)
        if is_atomic and is_split:
            found.append(_of(3, calls[0], f"one claim was granted in commits {commits}"))
        if len(granted) > calls[0].count * (len(commits) if is_atomic else len(calls)):
            found.append(_of(3, calls[0], f"{len(granted)} leases for {calls[0].count}"))
        if all(call.is_certain for call in calls):
            found.append(_of(3, calls[0], f"{calls[0].answer}, and yet leases were granted"))
    return found


def _follow_each_other(stories: Stories, granted: Sequence[Claimed]) -> bool:
    """Whether what one claim was granted again came when nothing of it was left."""
    return all(
        (end := stories.ends.get(before.lease.fence)) is not None and end.position < after.position
        for before in granted
        for after in granted
        if commit_of(before.position) < commit_of(after.position)
    )


def only_the_current_token_counts(stories: Stories, calls: Sequence[Call]) -> list[Violation]:
    """5 and 6. Nothing is accepted with another token than the current one; after a newer token
    is granted, no effect of an older one is accepted."""
    found: list[Violation] = []
    acks: dict[int, list[Call]] = {}
    for call in calls:
        if call.lease is None or call.kind not in ("ack", "heartbeat"):
            continue
        if call.kind == "ack":
            acks.setdefault(call.lease.fence, []).append(call)
        if call.succeeded:
            found += _accepted(stories, call)
    for fence, attempts in acks.items():
        if all(call.is_certain for call in attempts) and isinstance(
            stories.ends.get(fence), Completed
        ):
            found.append(_of(5, attempts[0], f"{attempts[0].answer}, and yet it completed"))
    for fence, end in stories.ends.items():
        if isinstance(end, Completed) and fence not in acks:
            found.append(Violation(5, "nobody's ack completed it", None, end.tenant, end.id))
    return found


def _accepted(stories: Stories, call: Call) -> Iterator[Violation]:
    assert call.lease is not None
    assert call.answered is not None
    claimed = stories.claims.get(call.lease.fence)
    if claimed is None or claimed.operation != call.lease.secret or claimed.id != call.id:
        yield _of(5, call, f"{call.kind} was accepted with a token that was never granted")
        return
    end = stories.ends.get(call.lease.fence)
    if call.kind == "ack":
        if not isinstance(end, Completed) or commit_of(end.position) > call.answered:
            yield _of(6, call, f"an ack was accepted, but the attempt was {_name(end)}")
    elif end is not None and commit_of(end.position) <= call.asked:
        yield _of(6, call, f"a heartbeat was accepted after the attempt was {_name(end)}")


def cancel_wins(stories: Stories, calls: Iterable[Call]) -> list[Violation]:
    """8. Acknowledged before the completion committed, the job ends cancelled; otherwise the
    completion stands and cancel says so."""
    found: list[Violation] = []
    for call in calls:
        if call.kind != "cancel" or not call.succeeded:
            continue
        seen = [state for _, state in stories.states_within(call, call.id)]
        if call.answer == "not_found":
            # Gone or not yet there; one that is live can't be overlooked.
            if all(state is not None and not state.is_terminal for state in seen):
                found.append(_of(8, call, f"not found, but it was {seen[-1]}"))
        elif call.answer not in [state and state.value for state in seen]:
            found.append(_of(8, call, f"cancel answered {call.answer}, but it was {seen}"))
    return found


def reads_are_fresh(stories: Stories, calls: Iterable[Call], has_lapsed: Lapse) -> list[Violation]:
    """16. Read your writes: the same client sees what it was told, and everybody what was durable
    when they asked. A result is visible if and only if its success committed, and belongs to the
    winning token.

    `has_lapsed` says whether a job with this last event may have left by a time.
    """
    found: list[Violation] = []
    for call in calls:
        if not call.succeeded:
            continue
        if call.fence is not None:
            found += _seen_result(stories, call)
        if call.kind == "get":
            found += _seen_state(stories, call, has_lapsed)
        elif call.kind == "enqueue" and call.answer != "queued":
            found += _seen_duplicate(stories, call)
        elif call.kind == "claim":
            found += _seen_leases(stories, call)
    return found


def _seen_state(stories: Stories, call: Call, has_lapsed: Lapse) -> Iterator[Violation]:
    seen = list(stories.states_within(call, call.id))
    if call.answer:
        if call.answer not in [state and state.value for _, state in seen]:
            yield _of(16, call, f"get saw {call.answer}, but it was {[s for _, s in seen]}")
    elif not any(event is None or has_lapsed(event, call.answered_at) for event, _ in seen):
        yield _of(16, call, f"get saw nothing, but it was {[s for _, s in seen]}")


def _seen_result(stories: Stories, call: Call) -> Iterator[Violation]:
    assert call.fence is not None
    assert call.answered is not None
    end = stories.ends.get(call.fence)
    if not isinstance(end, Completed) or commit_of(end.position) > call.answered:
        yield _of(16, call, f"a result of fence {call.fence}, which was {_name(end)}")


def _seen_duplicate(stories: Stories, call: Call) -> Iterator[Violation]:
    seen = [state for _, state in stories.states_within(call, call.answer_id)]
    wanted = State.COMPLETED if call.answer == "completed" else None
    if wanted is not None and wanted not in seen:
        yield _of(16, call, f"told of a completed {call.answer_id!r}, but it was {seen}")
    if wanted is None and all(state is None for state in seen):
        yield _of(16, call, f"told of a duplicate {call.answer_id!r} that was not there")


def _seen_leases(stories: Stories, call: Call) -> Iterator[Violation]:
    for id, lease in call.leases:
        claimed = stories.claims.get(lease.fence)
        if claimed is None or (claimed.id, claimed.operation) != (id, lease.secret):
            yield _of(16, call, f"given a lease on {id!r} that is not in the log")
        elif commit_of(claimed.position) > (call.answered or 0):
            yield _of(16, call, f"given a lease on {id!r} before it was durable")


def followers_see_everything(
    log: Iterable[Committed], tenant: str | None, since: int, seen: Sequence[Event]
) -> list[Violation]:
    """16. A follower's stream has every event of its tenant once, in order, without a gap."""
    events = (
        event
        for commit in log
        for event in commit.events
        if event.position > since and tenant in (None, event.tenant)
    )
    count = 0
    for expected in events:
        if count == len(seen):
            return [Violation(16, f"a follower never saw {expected.event} {expected.position}")]
        if seen[count] != expected:
            message = f"a follower saw {seen[count].position} in place of {expected.position}"
            return [Violation(16, message, commit_of(expected.position), tenant)]
        count += 1
    if count < len(seen):
        return [Violation(16, f"a follower saw {seen[count].position}, which is not in the log")]
    return []


def _name(end: JobEvent | None) -> str:
    return "not ended" if end is None else end.event


def _of(invariant: int, call: Call, message: str) -> Violation:
    return Violation(invariant, f"{call.client}: {message}", call.answered, call.tenant, call.id)
