"""What a store of records must do to carry a queue, as tests.

Subclass it, say how a handle on one new, empty store is made, run pytest (with pytest-asyncio):

    class TestMyStore(RecordStoreConformance):
        @pytest.fixture
        def connect(self) -> Connect:
            return lambda: MyStore(…)

It asks for what the port promises; what a queue means is the backend suite's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeAlias

import msgspec
import pytest
import pytest_asyncio

from penstock.kernel.departures import Departed
from penstock.kernel.tenancy import Hold
from penstock.ports.records import (
    NOTHING,
    Ask,
    Change,
    Departure,
    Found,
    Front,
    Head,
    HoldChange,
    KeyHold,
    Need,
    Put,
    RecordStore,
    Remembered,
    Removal,
    Shelf,
    Unheard,
)
from penstock.testing.clock import EPOCH
from penstock.testing.conformance.record_bulk import RecordBulkConformance
from penstock.testing.conformance.record_counters import RecordCountersConformance
from penstock.testing.conformance.record_listing import RecordListingConformance
from penstock.testing.conformance.record_steps import (
    a_change,
    a_record,
    candidates,
    find,
    lives,
    put,
    version,
    write,
)

Connect: TypeAlias = Callable[[], RecordStore]

HANDLES = 4
TURNS_EACH = 10
SCOPE = ("default", "work", "k")
CHANGED_SECONDS = 20.0
LEFT = Remembered("default", "left", Departed(EPOCH + 600, ("call",)))


@pytest.mark.asyncio
class RecordStoreConformance(
    RecordCountersConformance, RecordListingConformance, RecordBulkConformance
):
    """The promises of `penstock.ports.records.RecordStore`, one test each."""

    @pytest.fixture
    def connect(self) -> Connect:
        raise NotImplementedError("a subclass says how to make a handle, as a fixture")

    @pytest_asyncio.fixture
    async def store(self, connect: Connect) -> AsyncIterator[RecordStore]:
        store = connect()
        assert not await store.exists()
        await store.open()
        yield store
        await store.close()

    async def test_a_new_store_is_empty_and_looking_writes_nothing(
        self, store: RecordStore
    ) -> None:
        await find(store, Need())
        assert await store.head() == Head(0, 0.0, 0, b"", 0, 0)
        assert await store.commits(0, 9) == []
        assert await store.first_commit() == 1

    async def test_what_was_written_is_found(self, store: RecordStore) -> None:
        await put(store, a_record("a", 1, body=b"the body"), a_record("b", 2))
        [stored] = (await find(store, Need(ids=[("default", "a"), ("default", "c")]))).records
        assert (stored.life, stored.shelf, stored.body) == (1, "pending", b"the body")
        assert stored.version == (await store.head()).commit

    async def test_the_clock_of_the_newest_time_is_given_back_with_it(
        self, store: RecordStore
    ) -> None:
        for number, at, clock in ((1, EPOCH + 100, EPOCH + 10), (2, EPOCH + 109, EPOCH + 20)):
            puts = [Put(a_record(str(number), number), None)]
            change = partial(a_change, at=at, clock=clock, puts=puts)
            await store.turn(lambda head: Need(), _decide_by(change), is_read=False)
        head = await store.head()
        assert (head.at, head.clock) == (EPOCH + 109, EPOCH + 20)

    async def test_another_tenants_record_is_not_found(self, store: RecordStore) -> None:
        await put(store, a_record("a", 1))
        assert await lives(store, Need(ids=[("neighbour", "a")])) == []
        assert await lives(store, candidates(tenant="neighbour")) == []

    async def test_every_handle_finds_what_one_has_written(
        self, store: RecordStore, connect: Connect
    ) -> None:
        other = connect()
        await other.open()
        await put(store, a_record("a", 1))
        assert await lives(other, Need(ids=[("default", "a")])) == [1]
        assert (await other.head()) == (await store.head())
        await other.close()

    async def test_a_turn_that_only_reads_leaves_no_trace(self, store: RecordStore) -> None:
        await put(store, a_record("a", 1))
        before = await store.head()
        assert await store.turn(
            lambda head: Need(ids=[("default", "a")]), lambda found: None, is_read=True
        )
        assert await store.head() == before

    async def test_an_error_while_deciding_is_the_callers_and_nothing_is_written(
        self, store: RecordStore
    ) -> None:
        def decide(found: Found) -> Change:
            raise LookupError("nothing of that kind")

        with pytest.raises(LookupError):
            await store.turn(lambda head: Need(), decide, is_read=False)
        await put(store, a_record("a", 1))

    async def test_the_number_of_a_turn_is_above_all_that_it_found(
        self, store: RecordStore
    ) -> None:
        for n in range(3):
            await put(store, a_record(str(n), n))
        found = await find(store, Need(ids=[("default", str(n)) for n in range(3)]))
        versions = [stored.version for stored in found.records]
        assert sorted(versions) == versions
        assert found.commit > max(versions)

    @pytest.mark.parametrize("stale", ["changed", "gone", "taken", "removal", "key", "free key",
                                       "charter", "remembered", "forgotten"])  # fmt: skip
    async def test_what_is_not_as_it_was_found_refuses_the_whole_change(
        self, store: RecordStore, stale: str
    ) -> None:
        await put(store, a_record("a", 1))
        held = KeyHold("default", SCOPE, Hold("a", 1))
        holds = [HoldChange("default", SCOPE, None, held)]
        assert await write(store, holds=holds, charter=b"one", remembered=[LEFT])
        is_at = await version(store, "a")
        wrong: dict[str, dict[str, Any]] = {
            "changed": {"puts": [Put(a_record("a", 1), is_at + 7)]},
            "gone": {"puts": [Put(a_record("b", 2), is_at)]},
            "taken": {"puts": [Put(a_record("a", 3), None)]},
            "removal": {"removals": [Removal("default", "a", 1, is_at + 7)]},
            "key": {"holds": [HoldChange("default", SCOPE, 9, None)]},
            "free key": {"holds": [HoldChange("default", SCOPE, None, held)]},
            "charter": {"charter_found": 0},
            "remembered": {"unheard": [Unheard("default", "left", None)]},
            "forgotten": {"unheard": [Unheard("default", "new", LEFT.departed)]},
        }
        before, good = await store.head(), Put(a_record("good", 8), None)
        fields = wrong[stale]
        puts = [good, *fields.pop("puts", ())]
        assert not await write(store, puts=puts, **fields)
        assert await store.head() == before
        assert await lives(store, Need(ids=[("default", "good"), ("default", "a")])) == [1]

    async def test_a_record_can_be_replaced_and_removed(self, store: RecordStore) -> None:
        await put(store, a_record("a", 1))
        running = a_record("a", 1, shelf=Shelf.RUNNING, at=EPOCH + 30, claim="c", body=b"new")
        assert await write(store, puts=[Put(running, await version(store, "a"))])
        [stored] = (await find(store, Need(operations=[("default", "c")]))).records
        assert (stored.life, stored.shelf, stored.body) == (1, "running", b"new")
        assert await lives(store, candidates()) == []
        assert await write(store, removals=[Removal("default", "a", 1, stored.version)])
        assert await lives(store, Need(ids=[("default", "a")])) == []

    async def test_a_new_life_can_take_the_id_of_one_that_is_removed_with_it(
        self, store: RecordStore
    ) -> None:
        await put(store, a_record("a", 1))
        gone = Removal("default", "a", 1, await version(store, "a"))
        assert await write(store, removals=[gone], puts=[Put(a_record("a", 2), None)])
        assert await lives(store, Need(ids=[("default", "a")])) == [2]

    async def test_candidates_are_the_first_in_claim_order(self, store: RecordStore) -> None:
        await put(
            store,
            a_record("late", 1, at=EPOCH - 1), a_record("first", 2, at=EPOCH - 2, type="t"),
            a_record("urgent", 3, priority=-1, queue="q"), a_record("tie", 4, at=EPOCH - 1),
            a_record("not yet", 5, at=EPOCH + 1, priority=-9), a_record("low", 6, priority=5),
        )  # fmt: skip
        for count, expected in enumerate([[3], [2, 3], [1, 2, 3], [1, 2, 3, 4]], start=1):
            assert await lives(store, candidates(count)) == expected
        assert await lives(store, candidates(9)) == [1, 2, 3, 4, 6]

    async def test_candidates_are_of_the_queues_and_types_that_were_asked_for(
        self, store: RecordStore
    ) -> None:
        places = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")]
        await put(
            store,
            *(
                a_record(str(n), n, queue=queue, type=type)
                for n, (queue, type) in enumerate(places)
            ),
        )
        assert await lives(store, candidates(queues=("a", "nowhere"))) == [0, 1]
        assert await lives(store, candidates(types=("x", "z"))) == [0, 2, 3]
        assert await lives(store, candidates(queues=("a", "b"), types=("x",))) == [0, 2]
        assert await lives(store, candidates(paused=frozenset({"a"}))) == [2, 3]

    async def test_the_front_of_a_shelf_goes_up_to_a_time(self, store: RecordStore) -> None:
        await put(store, *(a_record(str(n), n, shelf=Shelf.DEAD, at=EPOCH + n) for n in range(5)))
        await put(store, a_record("other", 9, shelf=Shelf.COMPLETED))
        for until, least, most, expected in [
            (EPOCH + 2, 0, 9, [0, 1, 2]), (EPOCH + 2, 0, 2, [0, 1]), (EPOCH - 1, 2, 9, [0, 1]),
            (EPOCH - 1, 0, 9, []), (EPOCH + 1, 1, 9, [0, 1]),
        ]:  # fmt: skip
            front = Front(Shelf.DEAD, until, least, most)
            assert await lives(store, Need(fronts=[front])) == expected

    async def test_a_turn_that_may_be_idle_and_finds_nothing_leaves_no_trace(
        self, store: RecordStore
    ) -> None:
        await put(store, a_record("a", 1, shelf=Shelf.COMPLETED), a_record("b", 2))
        head, ripe = await store.head(), Front(Shelf.COMPLETED, EPOCH, 0, 9)
        found: list[Found] = []
        for type in ("other", "work"):
            need = msgspec.structs.replace(
                candidates(types=(type,)), riding=[ripe], may_be_idle=True
            )
            assert await store.turn(_ask_for(need), found.append, is_read=False)
        idle, busy = found
        assert idle == NOTHING
        assert sorted(stored.life for stored in busy.records) == [1, 2]
        assert busy.commit > head.commit
        assert await store.head() == head

    async def test_a_record_is_found_with_its_key_and_a_key_with_its_holder(
        self, store: RecordStore
    ) -> None:
        held = KeyHold("default", SCOPE, Hold("b", 2, EPOCH + 60), EPOCH + 60)
        await put(store, a_record("a", 1, key="k"), a_record("b", 2, key="k"), a_record("c", 3))
        assert await write(store, holds=[HoldChange("default", SCOPE, None, held)])
        for need in (Need(ids=[("default", "a")]), Need(keys=[("default", SCOPE)])):
            found = await find(store, need)
            assert list(found.holds) == [held]
            assert 2 in {stored.life for stored in found.records}
        assert (await find(store, Need(keys=[("neighbour", SCOPE)]))).holds == []

    @pytest.mark.parametrize("key", ["", "a\x00b", "a'b\"c", "5", "null", "\u2028 ä 🚰"])
    async def test_a_key_is_any_text(self, store: RecordStore, key: str) -> None:
        scope = ("default", "work", key)
        held = KeyHold("default", scope, Hold("a", 1))
        assert await write(store, holds=[HoldChange("default", scope, None, held)])
        assert list((await find(store, Need(keys=[("default", scope)]))).holds) == [held]

    async def test_a_key_whose_time_has_passed_can_go(self, store: RecordStore) -> None:
        for key, lapses_at in (("k", EPOCH + 60), ("live", None)):
            scope = ("default", "work", key)
            held = KeyHold("default", scope, Hold("a", 1, EPOCH + 60), lapses_at)
            assert await write(store, holds=[HoldChange("default", scope, None, held)])
        assert await write(store, lapsed_at=EPOCH + 60)
        assert (await find(store, Need(keys=[("default", ("default", "work", "live"))]))).holds

    async def test_keys_that_time_will_free_are_told(self, store: RecordStore) -> None:
        for key, lapses_at in (("b", EPOCH + 60), ("a", EPOCH + 61), ("live", None)):
            scope = ("default", "work", key)
            held = KeyHold("default", scope, Hold(key, 1, EPOCH + 60), lapses_at)
            assert await write(store, holds=[HoldChange("default", scope, None, held)])
        assert [one.hold.id for one in await store.lapsing("default", EPOCH)] == ["a", "b"]
        assert [one.hold.id for one in await store.lapsing("default", EPOCH + 60)] == ["a"]
        assert await store.lapsing("neighbour", EPOCH) == []

    async def test_the_next_due_time_is_that_of_what_was_asked_for(
        self, store: RecordStore
    ) -> None:
        wanted = candidates().wanted[0]
        due = await store.next_due(wanted)
        assert (due.pending, due.lease_end) == (None, None)
        leased = a_record("r", 3, shelf=Shelf.RUNNING, at=EPOCH + 30, claim="c")
        await put(store, a_record("a", 1, at=EPOCH + 9, queue="a"), a_record("b", 2), leased)
        due = await store.next_due(wanted)
        assert (due.pending, due.lease_end) == (EPOCH, EPOCH + 30)
        paused = msgspec.structs.replace(wanted, paused=frozenset({"default"}))
        assert (await store.next_due(paused)).pending == EPOCH + 9

    async def test_commits_are_read_in_order_until_they_are_vacuumed(
        self, store: RecordStore
    ) -> None:
        departed = Departure("default", "gone", 1, (1_000_000, 2_000_000))
        for n in range(5):
            assert await write(store, departures=[departed] if n == 1 else [])
        numbers = [number for number, _ in await store.commits(0, 9)]
        assert numbers == sorted(numbers)
        assert [number for number, _ in await store.commits(numbers[0], 2)] == numbers[1:3]
        assert await store.commit(numbers[2]) == b"commit %d" % numbers[2]
        assert await store.departure("default", "gone", None) == departed
        assert await store.vacuum(EPOCH + numbers[3], numbers[2], 0.0) == 2
        assert await store.first_commit() == numbers[2]
        assert [number for number, _ in await store.commits(0, 9)] == numbers[2:]
        assert await store.commit(numbers[0]) is None
        assert await store.vacuum(EPOCH + numbers[3], numbers[4], 0.0) == 1, "what is young stays"
        assert await store.departure("default", "gone", None) is None

    async def test_a_vacuum_that_drops_nothing_leaves_the_first_commit_where_it_was(
        self, store: RecordStore
    ) -> None:
        """Also where the first numbers were given to turns that came to nothing."""
        for _ in range(2):
            assert await store.turn(lambda head: Need(), lambda found: None, is_read=False)
        assert await write(store)
        [(number, _)] = await store.commits(0, 9)
        before = await store.first_commit()
        assert before <= number
        assert await store.vacuum(0.0, number, 0.0) == 0
        assert await store.vacuum(EPOCH + 100, number, 0.0) == 0
        assert await store.first_commit() == before

    async def test_side_objects_are_known_until_they_are_forgotten(
        self, store: RecordStore
    ) -> None:
        assert await write(store, sides={"data/a": None, "data/b": None})
        assert await write(store, sides={"data/b": EPOCH})
        assert await store.sides() == {"data/a": None, "data/b": EPOCH}
        await store.vacuum(0.0, 0, EPOCH + 1)
        assert await store.sides() == {"data/a": None}

    async def test_who_waits_is_told_of_what_another_handle_has_written(
        self, store: RecordStore, connect: Connect
    ) -> None:
        other = connect()
        await other.open()
        await store.changed(0)
        async with asyncio.timeout(CHANGED_SECONDS):
            waiting = asyncio.gather(store.changed(2 * CHANGED_SECONDS))
            await put(other, a_record("a", 1))
            await waiting
        await other.close()

    async def test_no_turn_is_lost_to_another(self, connect: Connect) -> None:
        """Each adds one to a number in one record; whoever finds it changed tries again."""
        handles = [connect() for _ in range(HANDLES)]
        for handle in handles:
            await handle.open()
        await put(handles[0], a_record("counter", 1, body=b"0"))

        def added(found: Found) -> Change:
            [stored] = found.records
            counter = a_record("counter", 1, body=b"%d" % (int(stored.body) + 1))
            return a_change(found.commit, puts=[Put(counter, stored.version)])

        async def add(handle: RecordStore) -> None:
            need = Need(ids=[("default", "counter")])
            for _ in range(TURNS_EACH):
                while not await handle.turn(lambda head: need, added, is_read=False):
                    pass

        await asyncio.gather(*map(add, handles))
        [stored] = (await find(handles[0], Need(ids=[("default", "counter")]))).records
        assert int(stored.body) == HANDLES * TURNS_EACH
        for handle in handles:
            await handle.close()


def _decide_by(change: Callable[[int], Change]) -> Callable[[Found], Change]:
    return lambda found: change(found.commit)


def _ask_for(need: Need) -> Ask:
    return lambda head: need
