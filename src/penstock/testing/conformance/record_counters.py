"""What a store of records must count, as tests; a part of its suite (`conformance.records`)."""

from __future__ import annotations

from penstock.kernel.job import State
from penstock.ports.counters import CountChange
from penstock.ports.records import RecordStore
from penstock.testing.clock import EPOCH
from penstock.testing.conformance.record_steps import a_record, put, write


class RecordCountersConformance:
    async def test_everybody_who_ever_had_a_job_is_a_tenant(self, store: RecordStore) -> None:
        assert await store.tenants() == []
        for tenant in ("b", "a"):
            for change in (1, -1):
                counted = [CountChange(tenant, "q", "t", State.PENDING, change, 0)]
                assert await write(store, counts=counted)
        assert await store.tenants() == ["a", "b"]

    async def test_differences_add_up(self, store: RecordStore) -> None:
        for type, now, left in (("a", 3, 0), ("a", -2, 1), ("b", 1, 0)):
            counted = [CountChange("default", "q", type, State.PENDING, now, left)]
            assert await write(store, counts=counted, completed=now)
        survey = await store.survey("default", EPOCH)
        assert [(one.queue, one.state, one.now, one.left) for one in survey.counts] == [
            ("q", State.PENDING, 2, 1)
        ]
        assert (await store.head()).completed == 2
        assert (await store.survey("neighbour", EPOCH)).counts == []

    async def test_a_survey_says_what_waits(self, store: RecordStore) -> None:
        await put(
            store,
            a_record("a", 1, at=EPOCH - 5), a_record("b", 2, at=EPOCH - 9, priority=3),
            a_record("c", 3, at=EPOCH + 5), a_record("d", 4, at=EPOCH + 7, queue="later"),
            a_record("e", 5, at=EPOCH - 1, type="other"), a_record("f", 6, at=EPOCH + 90),
        )  # fmt: skip
        survey = await store.survey("default", EPOCH)
        waiting = {(one.queue, one.type): one for one in survey.waiting}
        assert {
            name: (one.pending, one.oldest_at, one.scheduled) for name, one in waiting.items()
        } == {
            ("default", "work"): (4, EPOCH - 9, 2),
            ("default", "other"): (1, EPOCH - 1, 0),
            ("later", "work"): (1, EPOCH + 7, 1),
        }

    async def test_time_alone_makes_what_waits_ready(self, store: RecordStore) -> None:
        seconds = (5, 30, 90, 95, 150, 600)
        await put(store, *(a_record(str(n), n, at=EPOCH + n) for n in seconds))
        for passed, scheduled in [(1, 6), (5, 5), (35, 4), (60, 4), (92, 3), (150, 1), (601, 0)]:
            [one] = (await store.survey("default", EPOCH + passed)).waiting
            assert (one.pending, one.scheduled) == (6, scheduled)
