"""Types that no registered worker serves are said, with how long they have waited."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import penstock
from penstock.insights.serving import Unserved, types_served, unserved
from penstock.kernel.state import QueueState
from penstock.ports.backend import Filter, QueueStats, TypeStats, WorkerRecord
from penstock.runtime.services import Services
from penstock.testing.clock import EPOCH, FakeClock

NOW = 1_000.0
STATS = QueueStats(
    "q", {}, 6, 0, 0, False, 900.0,
    types=[TypeStats("mail", 1, None), TypeStats("new", 3, 900.0), TypeStats("old", 2, 990.0)],
)  # fmt: skip


def a_worker(**fields: Any) -> WorkerRecord:
    made = WorkerRecord(
        "w", "host", 7, "default", None, 64, 0.0, NOW, "running", [], {}, types=["old"]
    )
    return replace(made, **fields)


def names(found: list[Unserved]) -> list[str]:
    return [one.type for one in found]


def test_what_no_worker_serves_is_said_with_its_age_the_oldest_first() -> None:
    first, second = unserved("default", [STATS], [a_worker()], NOW)
    assert (first.type, first.pending, first.waiting_seconds) == ("new", 3, 100.0)
    assert (second.type, second.pending, second.waiting_seconds) == ("mail", 1, None)


@pytest.mark.parametrize(
    "worker",
    [
        a_worker(seen_at=NOW - 31),
        a_worker(state="draining"),
        a_worker(tenant="neighbour"),
        a_worker(queues=["other"]),
    ],
)
def test_a_worker_that_will_not_claim_it_does_not_count(worker: WorkerRecord) -> None:
    assert names(unserved("default", [STATS], [worker], NOW)) == ["new", "old", "mail"]


def test_one_that_claims_everything_serves_everything() -> None:
    assert unserved("default", [STATS], [a_worker(types=None)], NOW) == []


async def test_doctor_warns_of_what_has_been_due_for_a_while() -> None:
    clock = FakeClock()
    async with penstock.open("memory://", services=Services(clock=clock)) as queue:
        await queue.enqueue("new")
        await queue.enqueue("old")
        state = QueueState()
        async for job in queue._backend.jobs("default", Filter()):
            state.adopt(job)
    worker = a_worker(seen_at=EPOCH + 60)
    assert types_served(state, [worker], clock.now()).verdict == "ok"
    check = types_served(state, [worker], clock.now() + 60)
    assert check.verdict == "warn"
    assert "1 of type 'new' in queue 'default'" in check.detail
    assert "old" not in check.detail.replace("oldest", "")
