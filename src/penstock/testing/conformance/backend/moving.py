"""Moves of a whole queue: what closes it, what comes in, and that all of it can be asked again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from penstock.client.queue import Queue
from penstock.errors import BeingFilled, LeaseLost, MoveAborted, MoveBegun, MoveConflict, Moved
from penstock.kernel.commands import (
    AbortFilling,
    Adopt,
    BeginFilling,
    CarriedKey,
    CarryDepartures,
    CarryKeys,
    EndFilling,
    FindConflicts,
    MoveQueue,
    Newcomer,
    ReopenQueue,
)
from penstock.kernel.departures import Departed
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import ABSENT, Job, Lease, State
from penstock.kernel.moves import Move, Phase
from penstock.kernel.settings import Settings
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import claim_one, claimed, completed, found, ids
from penstock.testing.factories import a_job

ELSEWHERE = "s3://elsewhere/queue"
FENCES = 77_000_000_000_000
OLD_LEASE = Lease(FENCES - 5, "5ec2e7")


def require_moves(queue: Queue) -> None:
    if not queue.capabilities.moves:
        pytest.skip("this backend can't be moved as a whole")


async def move(queue: Queue, target: str = ELSEWHERE, id: str = "m1") -> Move:
    require_moves(queue)
    return await queue._backend.execute(MoveQueue(SYSTEM_TENANT, id, target))


async def begin(queue: Queue, id: str = "m1", source: str = ELSEWHERE) -> Move:
    require_moves(queue)
    return await queue._backend.execute(
        BeginFilling(SYSTEM_TENANT, id, source, queue._services.clock.now())
    )


async def adopt(queue: Queue, *jobs: Job, id: str = "m1") -> list[object]:
    return list(await queue._backend.execute(Adopt(queue.tenant, id, list(jobs))))


async def end(queue: Queue, jobs: int, id: str = "m1", **more: Any) -> Move:
    opening = EndFilling(SYSTEM_TENANT, id, jobs, "", FENCES, Settings(), {}, {}, (), {})
    return await queue._backend.execute(replace(opening, **more))


def running(id: str, lease_until: float, **fields: Any) -> Job:
    given = {"payload": Raw(b"1"), "result": ABSENT, "lease": OLD_LEASE, **fields}
    return a_job(id=id, lease_until=lease_until, **given)


def pending(id: str, run_at: float, **fields: Any) -> Job:
    waiting = {"state": State.PENDING, "attempt": 0, "started_at": None, "worker": None}
    job = running(id, 0.0, run_at=run_at, **waiting, **fields)
    return replace(job, lease=None, lease_until=None)


class Moving:
    async def test_a_moved_queue_tells_everybody_where_it_is(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        await queue.enqueue("work", id="a")
        job = await claim_one(queue)
        await move(queue)
        for handle in (queue, other, await handles.open()):
            with pytest.raises(Moved, match=ELSEWHERE):
                await handle.enqueue("work")
            with pytest.raises(Moved, match=ELSEWHERE):
                await handle.claim()
            with pytest.raises(Moved, match=ELSEWHERE):
                await handle.ack(job)
            with pytest.raises(Moved, match=ELSEWHERE):
                await handle.vacuum()
            assert (await found(handle, "a")).state is State.RUNNING

    async def test_in_a_moved_queue_time_stands_still(self, queue: Queue, clock: FakeClock) -> None:
        id = await completed(queue, "done")
        await claimed(queue, id="held")
        await move(queue)
        commit = (await queue.stats()).commit
        await clock.advance(40 * 24 * 3600)
        assert (await found(queue, id)).result == "done"
        assert (await found(queue, "held")).state is State.RUNNING
        assert (await queue.stats()).commit == commit, "a moved queue has changed"

    async def test_a_queue_moves_once(self, queue: Queue) -> None:
        first = await move(queue, id="m1")
        assert (first.id, first.phase, first.peer) == ("m1", Phase.MOVED, ELSEWHERE)
        assert await move(queue, id="m2") == first
        with pytest.raises(Moved, match=ELSEWHERE):
            await move(queue, "s3://third", "m3")

    async def test_a_move_that_was_taken_back_leaves_an_open_queue(self, queue: Queue) -> None:
        await move(queue)
        await queue._backend.execute(ReopenQueue(SYSTEM_TENANT, "m1"))
        await queue._backend.execute(ReopenQueue(SYSTEM_TENANT, "m1"))
        assert (await queue.enqueue("work")).status == "queued"
        with pytest.raises(MoveAborted):
            await move(queue, id="m1")
        assert (await move(queue, id="m2")).id == "m2"

    async def test_a_queue_that_is_being_filled_is_closed_until_it_is_full(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await begin(queue)
        assert await adopt(queue, pending("a", clock.now())) == [True]
        with pytest.raises(BeingFilled, match=ELSEWHERE):
            await queue.claim()
        with pytest.raises(BeingFilled):
            await queue.enqueue("work")
        assert (await end(queue, 1)).phase is Phase.FILLED
        assert (await claim_one(queue)).id == "a"

    async def test_what_is_asked_again_happens_once(self, queue: Queue, clock: FakeClock) -> None:
        first = await begin(queue)
        assert await begin(queue, "another id") == first
        job = pending("a", clock.now())
        assert await adopt(queue, job) == [True]
        assert await adopt(queue, job, pending("b", clock.now())) == [False, True]
        await end(queue, 2)
        await queue.ack(await claim_one(queue))
        assert (await end(queue, 2)).jobs == 2
        assert await adopt(queue, job) == [False]
        assert (await begin(queue)).phase is Phase.FILLED
        assert (await claim_one(queue)).id == "b"

    async def test_an_adopted_job_is_what_it_was(self, queue: Queue, clock: FakeClock) -> None:
        now = clock.now()
        held = running("held", now + 30, attempt=3, failures=2, key="k", progress=0.5, worker="w9")
        await begin(queue)
        await adopt(queue, held)
        await end(queue, 1)
        job = await found(queue, "held")
        assert (job.state, job.attempt, job.failures, job.key) == (State.RUNNING, 3, 2, "k")
        assert (job.progress, job.worker, job.lease) == (0.5, "w9", OLD_LEASE)
        assert (await queue.enqueue("work", key="k")).id == "held"
        await queue.ack(job, "by the old holder")
        assert (await found(queue, "held")).result == "by the old holder"

    async def test_leases_go_on_growing(self, queue: Queue, clock: FakeClock) -> None:
        await begin(queue)
        await adopt(queue, running("held", clock.now() + 1))
        await end(queue, 1)
        before = await found(queue, "held")
        await clock.advance(10)
        assert await queue.expire() == 1
        await clock.advance(10)
        job = await claim_one(queue)
        assert job.lease is not None
        assert job.lease.fence > FENCES
        with pytest.raises(LeaseLost):
            await queue.ack(before)
        await queue.ack(job)

    async def test_claims_follow_the_order_of_adoption(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        now = clock.now()
        await begin(queue)
        await adopt(queue, pending("late", now + 60), pending("b", now - 5), pending("c", now - 5))
        await adopt(queue, pending("a", now - 9), pending("first", now - 1, priority=-1))
        await end(queue, 5)
        assert [job.id for job in await queue.claim(9)] == ["first", "a", "b", "c"]

    async def test_ids_and_keys_that_are_taken_are_named(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        require_moves(queue)
        await queue.enqueue("work", id="a", key="k")
        new = [Newcomer("a", "default", "work", None), Newcomer("b", "default", "work", "k")]
        conflicts = await queue._backend.execute(FindConflicts(queue.tenant, new))
        assert len(conflicts) == 2
        await begin(queue)
        [outcome] = await adopt(queue, pending("a", clock.now()))
        assert isinstance(outcome, MoveConflict)
        [outcome] = await adopt(queue, pending("b", clock.now(), key="k"))
        assert isinstance(outcome, MoveConflict)
        await queue._backend.execute(AbortFilling(SYSTEM_TENANT, "m1", ELSEWHERE))
        assert await ids(queue) == ["a"]

    async def test_a_filling_is_aborted_only_while_nothing_has_come(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await begin(queue)
        await queue._backend.execute(AbortFilling(SYSTEM_TENANT, "m1", ELSEWHERE))
        await queue.enqueue("work", id="own")
        with pytest.raises(MoveAborted):
            await begin(queue)
        await begin(queue, "m2")
        await adopt(queue, pending("a", clock.now()), id="m2")
        with pytest.raises(MoveBegun):
            await queue._backend.execute(AbortFilling(SYSTEM_TENANT, "m2", ELSEWHERE))

    async def test_a_carried_key_is_held_until_its_time_is_up(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        keys = [CarriedKey("default", "work", "k", "gone", clock.now() + 60, has_job=False)]
        await begin(queue)
        carry = CarryKeys(queue.tenant, "m1", keys)
        assert [await queue._backend.execute(carry) for _ in range(2)] == [1, 0]
        await end(queue, 0)
        receipt = await queue.enqueue("work", key="k")
        assert (receipt.status, receipt.id) == ("duplicate", "gone")
        await clock.advance(61)
        assert (await queue.enqueue("work", key="k")).status == "queued"

    async def test_what_jobs_have_left_behind_comes_along(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await begin(queue)
        left = {"gone": Departed(clock.now() + 60, ("this call",))}
        carry = CarryDepartures(queue.tenant, "m1", left)
        assert [await queue._backend.execute(carry) for _ in range(2)] == [1, 0]
        await end(queue, 0)
        again = await queue.enqueue("work", id="gone", operation="this call")
        assert (again.id, again.status, again.state) == ("gone", "duplicate", None)
        assert (await queue.enqueue("work", id="gone", operation="another")).status == "queued"

    async def test_the_calls_of_adopted_jobs_come_along(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await begin(queue)
        dead = {"state": State.FAILED, "ended_at": clock.now(), "operations": ("this call",)}
        job = replace(running("came", 0.0, **dead), lease=None, lease_until=None)
        assert await adopt(queue, job) == [True]
        await end(queue, 1)
        again = await queue.enqueue("work", id="came", operation="this call")
        assert (again.status, again.state) == ("duplicate", State.FAILED)

    async def test_settings_and_pauses_come_along(self, queue: Queue) -> None:
        await begin(queue)
        settings = Settings(result_ttl_seconds=5.0)
        await end(queue, 0, settings=settings, paused={queue.tenant: ["images"]})
        contents = await queue._backend.contents()
        assert contents.settings == settings
        assert [(one.tenant, one.paused) for one in contents.tenants] == [
            (queue.tenant, ["images"])
        ]

    async def test_settings_that_were_chosen_stay(self, queue: Queue) -> None:
        await queue.configure(result_ttl_seconds=7)
        await begin(queue)
        await end(queue, 0, settings=Settings(result_ttl_seconds=5.0))
        assert (await queue._backend.contents()).settings.result_ttl_seconds == 7

    async def test_the_contents_are_those_of_all_tenants(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await completed(queue, id="a", key="k", unique_seconds=60)
        await queue.enqueue("work", id="b", key="live")
        await queue.pause("images")
        [tenant] = (await queue._backend.contents()).tenants
        assert (tenant.tenant, tenant.jobs, tenant.paused) == (queue.tenant, 2, ["images"])
        [(scope, hold)] = tenant.keys
        assert (scope, hold.id, hold.until) == (("default", "work", "k"), "a", clock.now() + 60)
