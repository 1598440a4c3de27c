"""The order of lives is that of the jobs that are there, whatever was taken back or read back."""

from __future__ import annotations

from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engines.ledger.listing import Listing
from penstock.kernel import lives
from penstock.kernel.job import Job, State
from penstock.kernel.lives import Lives
from penstock.ports import listing as pages
from penstock.ports.backend import Filter
from penstock.testing.factories import a_job
from tests.kernel.scripts import Kernel, Script, Step, scripts, steps

GENTLE = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
END = 10**18
FILTERS = [
    *(Filter(state) for state in [None, *State]),
    Filter(archived=True),
    Filter(State.PENDING, queue="x", type="t"),
    Filter(State.FAILED, type="s"),
    Filter(queue="y"),
]


def require_lists(kernel: Kernel) -> None:
    """Out of the index of a state, or past all others: the same."""
    for tenant, tenancy in kernel.state.tenants.items():
        for filter in FILTERS:
            expected = [
                job
                for job in sorted(tenancy.jobs.values(), key=lambda job: job.life)
                if filter.matches(job) and kernel.state.find(tenant, job.id, kernel.at)
            ]
            for looked_at_max in (1, 2, 10_000):
                with mock.patch.object(pages, "LOOKED_AT_MAX", looked_at_max):
                    listing, found = Listing(tenant, filter, None, None), list[Job]()
                    while listing.has_more:
                        found += listing.take(listing.look(kernel.state, kernel.at))
                assert [job.id for job in found] == [job.id for job in expected]


def require_order(kernel: Kernel) -> None:
    for tenancy in kernel.state.tenants.values():
        expected = sorted(tenancy.jobs.values(), key=lambda job: job.life)
        assert tenancy.lives.after(0, END, 10_000) == (expected, None)
        walked: list[Job] = []
        reached: int | None = 0
        while reached is not None:
            page, reached = tenancy.lives.after(reached, END, 2)
            walked += page
        assert walked == expected


@GENTLE
@given(script=scripts(15), lost=st.lists(steps(), min_size=1, max_size=8))
def test_lives_are_in_order_also_after_a_batch_that_was_taken_back(
    script: Script, lost: list[Step]
) -> None:
    kernel = Kernel()
    for seconds, batch in script:
        kernel.commit(seconds, batch)
        require_order(kernel)
    require_lists(kernel)
    kernel.at += 31.0
    kernel.state.begin()
    kernel.decide(lost)
    require_order(kernel)
    kernel.state.rollback()
    require_order(kernel)


def test_what_has_left_takes_no_room_for_ever_and_can_come_back() -> None:
    jobs = {f"{n}": a_job(id=f"{n}", life=n) for n in range(1, 1_001)}
    order = Lives(jobs)
    for job in jobs.values():
        order.add(job.life, job.id)
    gone = [jobs.pop(f"{n}") for n in range(1, 901)]
    for job in gone:
        order.remove(job.life)
    assert len(order) <= 2 * len(jobs) + lives._DEAD_ENTRIES_MIN
    for job in reversed(gone[:300]):
        jobs[job.id] = job
        order.add(job.life, job.id)
    found, reached = order.after(0, END, 10_000)
    assert [job.life for job in found] == [*range(1, 301), *range(901, 1_001)]
    assert reached is None
