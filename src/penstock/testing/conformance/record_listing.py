"""What a store of records promises to whoever lists them, as tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from penstock.ports.listing import LOOKED_AT_MAX, PageAsked
from penstock.ports.records import Put, RecordStore, Removal, Shelf
from penstock.testing.clock import EPOCH
from penstock.testing.conformance.record_steps import a_record, put, version, write

LIVES_END = 10**18
PAGES_MAX = 20
"""More than any of these listings has."""


class RecordListingConformance:
    async def test_a_listing_has_the_bodies_of_its_shelves(self, store: RecordStore) -> None:
        await put(
            store,
            a_record("a", 1, body=b"a", queue="q"), a_record("b", 2, body=b"b", type="t"),
            a_record("c", 3, body=b"c", shelf=Shelf.DEAD),
            a_record("d", 4, body=b"d", tenant="neighbour"),
        )  # fmt: skip

        async def listed(
            shelves: Sequence[Shelf], queue: str | None = None, type: str | None = None
        ) -> list[bytes]:
            return [*chain(*await all_pages(store, shelves, queue, type))]

        assert await listed(list(Shelf)) == [b"a", b"b", b"c"]
        assert await listed([Shelf.PENDING], queue="q") == [b"a"]
        assert await listed([Shelf.PENDING, Shelf.DEAD], type="work") == [b"a", b"c"]
        assert await listed([]) == []

    async def test_a_listing_is_cut_into_pages_by_life(self, store: RecordStore) -> None:
        shelves = [Shelf.DEAD, Shelf.PENDING, Shelf.RUNNING]
        records = [
            a_record(f"{n}", n + 1, body=b"%d" % n, shelf=shelves[n % 3], at=EPOCH - n)
            for n in range(10)
        ]
        await put(store, *reversed(records))
        assert await all_pages(store, shelves, count=4) == [
            [b"0", b"1", b"2", b"3"], [b"4", b"5", b"6", b"7"], [b"8", b"9"],
        ]  # fmt: skip
        pending = await all_pages(store, [Shelf.PENDING], count=2, after=2)
        assert [*chain(*pending)] == [b"4", b"7"]
        until = await store.listing(PageAsked("default", shelves, None, None, 2, 5, 100))
        assert (until.bodies, until.reached) == ([b"2", b"3", b"4"], None)

    async def test_a_page_looks_at_no_more_than_it_may_and_the_listing_goes_on(
        self, store: RecordStore
    ) -> None:
        many = LOOKED_AT_MAX + LOOKED_AT_MAX // 2
        others = [a_record(f"o{n}", n + 1, at=EPOCH + n, body=b"o") for n in range(many)]
        wanted = a_record("w", many + 1, body=b"w", type="rare", shelf=Shelf.DEAD)
        later = [
            a_record(f"l{n}", many + 2 + n, at=EPOCH + n, body=b"l") for n in range(LOOKED_AT_MAX)
        ]
        await put(store, *others, wanted, *later)
        pages = await all_pages(store, list(Shelf), type="rare", count=9)
        assert [*chain(*pages)] == [b"w"]
        assert [*chain(*await all_pages(store, [Shelf.DEAD], count=9))] == [b"w"]
        asked = PageAsked("default", list(Shelf), None, None, 0, LIVES_END, 9)
        first = await store.listing(asked)
        assert (first.bodies, first.reached) == ([b"o"] * 9, 9)

    async def test_a_record_that_was_removed_is_not_listed_and_its_id_is_with_its_new_life(
        self, store: RecordStore
    ) -> None:
        await put(store, a_record("a", 1, body=b"1"), a_record("b", 2, body=b"2"))
        gone = Removal("default", "a", 1, await version(store, "a"))
        again = Put(a_record("a", 3, body=b"3"), None)
        assert await write(store, removals=[gone], puts=[again])
        assert await all_pages(store, [Shelf.PENDING]) == [[b"2", b"3"]]


async def all_pages(
    store: RecordStore,
    shelves: Sequence[Shelf],
    queue: str | None = None,
    type: str | None = None,
    *,
    after: int = 0,
    count: int = 100,
) -> list[list[bytes]]:
    asked = PageAsked("default", shelves, queue, type, after, LIVES_END, count)
    pages: list[list[bytes]] = []
    for _ in range(PAGES_MAX):
        page = await store.listing(asked)
        assert len(page.bodies) <= count
        pages.append(page.bodies)
        if page.reached is None:
            return pages
        assert page.reached > asked.after
        asked = replace(asked, after=page.reached)
    raise AssertionError("it does not come to an end")
