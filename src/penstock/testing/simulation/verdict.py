"""All invariants over one finished world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import msgspec
from msgspec import Raw

from penstock.engines.ledger.journal import Head
from penstock.kernel import invariants
from penstock.kernel.events import Archived, Completed, Event, JobEvent, commit_of
from penstock.kernel.invariants import Committed, Stories, Violation
from penstock.kernel.invariants.record import ENDS, JOB_EVENTS
from penstock.kernel.job import ABSENT
from penstock.kernel.stamps import stamp_of
from penstock.kernel.state import QueueState
from penstock.testing.simulation.clocks import EPOCH_SECONDS
from penstock.testing.simulation.committed import DocumentedLog
from penstock.testing.simulation.plan import Plan
from penstock.testing.simulation.world import World
from penstock.wire.commit import CHAIN_START
from penstock.wire.snapshot import all_jobs, canonical, checkpoint_of, overview, restore
from penstock.wire.values import require_shallow

CLOCKS_APART_SECONDS = 10.0
"""How far ahead of real time a commit may be dated: skew, drift over a calibration, and waits."""


def violations(world: World) -> list[Violation]:
    log = world.log.commits()
    stories = Stories(log)
    if world.plan.layout == "tasks":
        found = _of_each_job(world, log)
    else:
        found = _of_the_log(world, log)
        found += _of_the_states(world, log)
    found += _of_the_calls(world, log, stories)
    found += invariants.everything_ended(stories)
    found += [Violation(17, surprise) for surprise in world.history.surprises]
    found += [Violation(17, f"a callback raised {error!r}") for error in world.loop.errors]
    return found


def _of_the_log(world: World, log: Sequence[Committed]) -> list[Violation]:
    asked = {call.operation: call.queues for call in world.history.calls if call.kind == "claim"}
    found = _of_each_job(world, log)
    found += invariants.log_is_a_chain(log)
    if log and log[0].commit != 1:
        found.append(Violation(15, "the log does not begin at commit 1"))
    if world.head() != len(log):
        found.append(Violation(15, f"{world.head()} commits, of which {len(log)} are contiguous"))
    found += invariants.claims_follow_the_order(log, asked)
    found += invariants.pauses_hold(log)
    found += invariants.imports_happen_once(log)
    found += invariants.deletions_are_covered(world.store.deletions)
    return found


def _of_each_job(world: World, log: Sequence[Committed]) -> list[Violation]:
    """What needs no order over all jobs."""
    found = invariants.leases_are_exclusive(log)
    found += invariants.values_can_be_read(log, _read)
    if world.plan.layout != "memory":
        allowed = CLOCKS_APART_SECONDS + world.plan.clocks_off_seconds_max
        found += invariants.times_are_the_stores(log, allowed)
    found += invariants.tokens_increase(log)
    found += invariants.terminal_is_final(log)
    found += invariants.attempts_are_counted(log)
    found += invariants.keys_are_unique(log)
    return found


def _read(inline: Raw) -> None:
    """As any other program would: what stands in an event is JSON, whatever its codec."""
    if inline is not ABSENT:
        require_shallow(msgspec.json.decode(inline))


def _of_the_calls(world: World, log: Sequence[Committed], stories: Stories) -> list[Violation]:
    calls = world.history.calls
    has_lapsed = lapsing(world.plan, _ahead_seconds(world, log))
    found = invariants.told_is_durable(stories, calls)
    found += invariants.publications_are_told(log, calls)
    found += invariants.jobs_were_asked_for(stories, calls)
    found += invariants.operations_happen_once(
        stories, calls, has_lapsed, is_atomic=world.plan.layout != "tasks"
    )
    found += invariants.leases_are_given_back(stories, calls)
    found += invariants.only_the_current_token_counts(stories, calls)
    found += invariants.cancel_wins(stories, calls)
    found += invariants.reads_are_fresh(stories, calls, has_lapsed)
    newest = {following.name: following for following in world.history.followings}
    is_single = world.plan.layout == "single"
    promised = [_of_jobs(commit) for commit in log] if is_single else log
    for following in world.history.followings:
        is_newest = following is newest[following.name]
        expected = promised if is_newest else promised[: commit_of(following.reached)]
        seen = _of_jobs_alone(following.seen) if is_single else following.seen
        found += invariants.followers_see_everything(
            expected, following.tenant, following.since, seen
        )
    return found


def _of_jobs(commit: Committed) -> Committed:
    """`queue.json` keeps pauses and settings only in its window, jobs' events for good."""
    return msgspec.structs.replace(commit, events=_of_jobs_alone(commit.events))


def _of_jobs_alone(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.__class__ in JOB_EVENTS]


def _ahead_seconds(world: World, log: Sequence[Committed]) -> float:
    """How far commit time has come to be ahead of the world's, where clocks were days off."""
    if not world.plan.days:
        return 0.0
    now = EPOCH_SECONDS + world.loop.time()
    return max((commit.at - (commit.stored_at or now) for commit in log), default=0.0)


def lapsing(plan: Plan, ahead_seconds: float = 0.0) -> Callable[[JobEvent, float], bool]:
    """Whether a job with that last event may have left by a time, going by the plan's settings."""
    settings = plan.settings
    leaves_early = "finished_jobs_max" in settings
    completed_ttl = -inf if leaves_early else settings.get("result_ttl_seconds", 3_600.0)
    archive_ttl = settings.get("archive_ttl_seconds", 7 * 86_400.0)
    dead_ttl = settings.get("dead_letter_ttl_seconds", 30 * 86_400.0)
    slack = CLOCKS_APART_SECONDS + plan.clocks_off_seconds_max + max(0.0, ahead_seconds)

    def has_lapsed(event: JobEvent, at: float) -> bool:
        at += slack
        if isinstance(event, Archived):
            return event.at + archive_ttl <= at
        if event.event == "unarchived":
            return True  # what counts is when it had ended before
        if isinstance(event, Completed):
            return event.at + min(completed_ttl, dead_ttl) <= at
        return event.__class__ in ENDS and event.at + dead_ttl <= at

    return has_lapsed


def _of_the_states(world: World, log: Sequence[Committed]) -> list[Violation]:
    is_single = world.plan.layout == "single"
    wanted = {
        commit: data
        for commit, data in world.store.checkpoints.items()
        if commit not in world.store.spoiled
    }
    for node in world.nodes:
        journal = node.journal
        if journal is not None and journal.head.commit and world.plan.layout != "memory":
            head = journal.head
            wanted.setdefault(head.commit, _picture(journal.state, head, is_bare=is_single))
    folds: dict[int, bytes] = {}
    state, before = QueueState(), CHAIN_START
    for commit in log:
        state.pending.advance(commit.at)
        for event in commit.events:
            state.apply(event)
        state.seal(commit.at, ended_before=commit.commit if is_single else None)
        before = commit.chain
        if commit.commit in wanted:
            head = Head(commit.commit, stamp_of(commit.at, commit.clock), before)
            folds[commit.commit] = _picture(state, head, is_bare=is_single)
    found = invariants.checkpoints_are_folds(wanted.items(), folds)
    found += invariants.counts_are_conserved(log, state)
    if log:
        found += _of_the_newest(world, log[-1], state)
    return found


def _of_the_newest(world: World, newest: Committed, folded: QueueState) -> list[Violation]:
    """What is kept must be what the log folds to, also where no checkpoint says so."""
    if world.plan.layout == "memory":
        kept = world.memory.state
    elif isinstance(world.log, DocumentedLog):
        document = world.log.document(newest.commit)
        kept = restore(document.overview, [record.job for record in document.jobs], document.at)
    else:
        return []
    head = Head(newest.commit, stamp_of(newest.at, newest.clock), "")
    data = _picture(kept, head, is_bare=True)
    fold = _picture(folded, head, is_bare=True)
    return invariants.checkpoints_are_folds([(newest.commit, data)], {newest.commit: fold})


def _picture(state: QueueState, head: Head, *, is_bare: bool) -> bytes:
    """The state as a checkpoint would have it; bare: without its place in a log."""
    if not is_bare:
        return checkpoint_of(
            state, commit=head.commit, chain=head.chain, at=head.at, clock=head.stamp.lagging_clock
        )
    jobs = (msgspec.json.encode(job) for job in canonical(all_jobs(state)))
    return b"\n".join((msgspec.json.encode(overview(state)), *jobs))
