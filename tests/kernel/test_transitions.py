"""The table of transitions: what is in it happens, what is not can't, and the docs show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Raw

from penstock.kernel.events import Enqueued, JobEvent
from penstock.kernel.job import ABSENT, State
from penstock.kernel.transitions import (
    TABLE,
    TRAIL_POSITIONS_MAX,
    IllegalTransition,
    apply,
    born,
    earlier_part,
    next_state,
    state_after,
)
from penstock.testing.diagram import lifecycle_diagram
from penstock.testing.factories import a_job

ROOT = Path(__file__).resolve().parents[2]
EVENTS: dict[str, type[Any]] = {kind.__struct_config__.tag: kind for kind in get_args(JobEvent)}
PAIRS = [(state, name) for state in State for name in EVENTS]


def an_event(name: str, **fields: Any) -> Any:
    """An event of that name with something plausible in every field."""
    kind = EVENTS[name]
    plausible: dict[str, Any] = {
        "position": 9_000_000, "at": 9.0, "tenant": "default", "queue": "default", "type": "work",
        "id": "job", "life": 1_000_000, "run_at": 10.0, "attempt": 1, "operation": "0" * 32,
        "lease_until": 39.0, "enqueued_at": 1.0, "failures": 1, "due_at": 2.0, "kind": "error",
        "error": "boom", "progress": 0.5,
    }  # fmt: skip
    needed = {
        field.name for field in msgspec.structs.fields(kind) if field.default is msgspec.NODEFAULT
    }
    return kind(**{name: plausible[name] for name in needed} | fields)


@pytest.mark.parametrize(("state", "name"), PAIRS)
def test_a_pair_that_is_not_in_the_table_can_not_happen(state: State, name: str) -> None:
    job = a_job(payload=ABSENT, result=ABSENT, state=state)
    if (state, name) in TABLE:
        assert apply(job, an_event(name)).state is TABLE[state, name] is next_state(state, name)
    else:
        with pytest.raises(IllegalTransition, match=name):
            apply(job, an_event(name))
        with pytest.raises(IllegalTransition, match=name):
            next_state(state, name)
    assert job.state is state, "the job that was passed in has changed"


@pytest.mark.parametrize("name", ["enqueued", "admitted"])
def test_a_job_begins_pending(name: str) -> None:
    event = an_event(name)
    assert isinstance(event, Enqueued)
    assert born(event).state is State.PENDING


def test_only_an_enqueued_or_admitted_event_begins_a_job() -> None:
    assert [name for before, name in TABLE if before is None] == ["enqueued", "admitted"]
    for name in set(EVENTS) - {"enqueued", "admitted"}:
        with pytest.raises(IllegalTransition):
            next_state(None, name)


def test_every_event_of_a_job_is_in_the_table() -> None:
    assert {name for _, name in TABLE} == set(EVENTS) - {"adopted"}


@pytest.mark.parametrize("state", State)
def test_an_adopted_job_begins_in_the_state_it_had(state: State) -> None:
    event = an_event("adopted", state=state, payload=Raw(b"1"))
    job = born(event)
    assert job.state is state is state_after(None, event)
    assert (job.payload is ABSENT) == (state is State.COMPLETED)
    assert job.trail == (event.position,)


def test_only_a_replay_leaves_a_terminal_state() -> None:
    leaving = {name for (state, name), after in TABLE.items() if state and after is not state}
    from_the_end = {
        name for (state, name), after in TABLE.items() if state and state.is_terminal
        if after is not state
    }  # fmt: skip
    assert from_the_end == {"replayed"}
    assert "replayed" in leaving


def test_no_event_completes_a_job_without_a_lease() -> None:
    assert {state for state, name in TABLE if name == "completed"} == {State.RUNNING}


@pytest.mark.parametrize("name", ["retried", "released", "snoozed", "completed", "failed"])
def test_the_lease_that_ended_an_attempt_is_remembered(name: str) -> None:
    job = a_job(payload=ABSENT, result=ABSENT)
    after = apply(job, an_event(name))
    assert (after.lease, after.lease_until, after.ended_lease) == (None, None, job.lease)


@pytest.mark.parametrize(("name", "kind"), [("expired", "expired"), ("failed", "expired")])
def test_a_lease_that_ran_out_ended_nothing(name: str, kind: str) -> None:
    after = apply(a_job(payload=ABSENT, result=ABSENT), an_event(name, kind=kind))
    assert (after.lease, after.ended_lease) == (None, None)


def test_heartbeats_are_not_in_the_trail() -> None:
    job = a_job(payload=ABSENT, result=ABSENT, trail=(5,))
    assert apply(job, an_event("extended")).trail == (5,)
    assert apply(job, an_event("retried")).trail == (5, 9_000_000)


def test_the_trail_is_bounded_and_what_it_lets_go_is_told_by_an_event() -> None:
    job = a_job(payload=ABSENT, result=ABSENT, state=State.PENDING, trail=())
    told: dict[int, tuple[int, ...]] = {}
    for position in range(0, 6 * TRAIL_POSITIONS_MAX, 2):
        claimed = an_event("claimed", position=position, earlier=earlier_part(job.trail))
        told[position] = claimed.earlier
        job = apply(apply(job, claimed), an_event("released", position=position + 1))
        assert len(job.trail) <= TRAIL_POSITIONS_MAX + 1
    known, unread = set(), set(job.trail)
    while unread:
        known |= unread
        unread = {earlier for position in unread for earlier in told.get(position, ())}
    assert known == set(range(6 * TRAIL_POSITIONS_MAX))


def test_the_diagram_in_the_docs_is_the_one_drawn_from_the_table() -> None:
    page = (ROOT / "docs/lifecycle.md").read_text(encoding="utf-8")
    drawn = page.partition("```mermaid\n")[2].partition("\n```")[0]
    assert drawn == lifecycle_diagram()
