"""Rows of queues that were made before are those that would be made now; made a few at a time."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock import NewJob
from penstock.engines.ledger import counting
from penstock.engines.ledger.counting import ROWS_PER_SLICE, add_up, count, make_rows
from penstock.kernel.job import State
from penstock.kernel.tenancy import Tenancy
from penstock.ports.backend import Stats
from penstock.testing.conformance.backend.steps import nonzero
from tests.kernel.scripts import Kernel, Script, Step, scripts, steps

GENTLE = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
QUEUES = 1_200


def seen(kernel: Kernel) -> list[Stats]:
    tenants = sorted(kernel.state.tenants)
    return [add_up(count(kernel.state, tenant, 0, kernel.at, None)) for tenant in tenants]


def require_fresh(kernel: Kernel) -> None:
    kept = seen(kernel)
    for tenancy in kernel.state.tenants.values():
        for counts in tenancy.counts.values():
            counts.view = None
    assert kept == seen(kernel)
    for tenancy, stats in zip(_tenancies(kernel), kept, strict=True):
        for row in stats.queues:
            pending = [job for job in tenancy.jobs.values() if job.queue == row.queue]
            waiting = sum(job.state is State.PENDING for job in pending) + row.unadmitted
            assert row.pending == sum(one.pending for one in row.types) == waiting


def _tenancies(kernel: Kernel) -> list[Tenancy]:
    return [kernel.state.tenants[name] for name in sorted(kernel.state.tenants)]


@GENTLE
@given(script=scripts(15), lost=st.lists(steps(), min_size=1, max_size=8))
def test_what_was_counted_before_is_what_would_be_counted_now(
    script: Script, lost: list[Step]
) -> None:
    kernel = Kernel()
    for seconds, batch in script:
        kernel.commit(seconds, batch)
        require_fresh(kernel)
    kernel.at += 31.0
    kernel.state.begin()
    kernel.decide(lost)
    require_fresh(kernel)
    kernel.state.rollback()
    require_fresh(kernel)


async def test_many_queues_are_counted_a_few_at_a_time() -> None:
    made: list[int] = []

    def made_slice(*arguments: object) -> bool:
        before = len(rows.mock_calls)
        is_all = make_rows(*arguments)  # type: ignore[arg-type]
        made.append(len(rows.mock_calls) - before)
        return is_all

    async with penstock.open("memory://") as queue:
        await queue.enqueue_many([NewJob("work", queue=f"q{n}") for n in range(QUEUES)])
        with (
            mock.patch.object(counting, "_row", wraps=counting._row) as rows,
            mock.patch.object(counting, "make_rows", made_slice),
        ):
            stats = await queue.stats()
            assert [row.pending for row in stats.queues] == [1] * QUEUES
            assert sum(made) == QUEUES
            assert max(made) <= ROWS_PER_SLICE
            made.clear()
            await queue.enqueue("work", queue="q7")
            assert nonzero((await queue.stats()).totals) == {"pending": QUEUES + 1}
            assert sum(made) == 1, "only what has changed is counted again"


@pytest.mark.parametrize("queues", [1, QUEUES])
async def test_totals_are_those_of_all_queues(queues: int) -> None:
    async with penstock.open("memory://") as queue:
        await queue.enqueue_many([NewJob("work", queue=f"q{n}") for n in range(queues)])
        await queue.ack(await queue.claim(1))
        totals = (await queue.stats()).totals
        assert (totals["completed"], totals.get("pending", 0)) == (1, queues - 1)
