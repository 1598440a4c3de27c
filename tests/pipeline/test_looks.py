"""Looks at a queue without a log: each event is in one piece, however late and whoever looks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.address import parse
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.names import CHARTER, TASKS, task_key, task_name
from penstock.engines.records.tasks.reaches import Reaches
from penstock.errors import ForeignWarehouse, PreconditionFailed, WarehouseBusy
from penstock.kernel.events import Archived, Enqueued
from penstock.pipeline.consumer import opened_consumer
from penstock.pipeline.feeds.looking import LookFeed
from penstock.pipeline.feeds.looks import LOOKS, Look, Looks, Range, stored_looks
from penstock.pipeline.warehouse.place import Place, opened_place
from penstock.ports.store import Create, Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.wire.task import Task, encode_task
from penstock.wiring import open_patient_store
from tests.pipeline.latecomers import Latecomer

NO_SPARK: Any = None
"""Looking needs none; reading what was seen does."""


def test_what_lies_between_two_looks_is_a_range_of_each_object() -> None:
    looks = Looks(
        1, 0, (Look(10, {"a": 3, "b": 5}), Look(20, {"a": 7}), Look(30, {"b": 6, "c": 1}))
    )
    assert looks.ranges(0, 10) == [Range("a", 0, 3), Range("b", 0, 5)]
    assert looks.ranges(10, 20) == [Range("a", 3, 7)]
    assert looks.ranges(10, 30) == [Range("a", 3, 7), Range("b", 5, 6), Range("c", 0, 1)]
    assert looks.ranges(30, 30) == []


def test_looks_that_all_tables_have_are_folded_and_what_is_gone_is_forgotten() -> None:
    looks = Looks(1, 0, (Look(10, {"a": 3, "b": 5}), Look(20, {"a": 7, "d": 2})))
    more = looks.with_look(Look(30, {"c": 1}), 10, {"b", "d"})
    assert more.taken == (Look(10, {"a": 3}), Look(20, {"a": 7, "d": 2}), Look(30, {"c": 1}))
    most = more.with_look(Look(40, {"a": 8}), 30, {"d"})
    assert most.taken == (Look(30, {"a": 7, "c": 1}), Look(40, {"a": 8}))
    assert most.knows(0)
    assert most.knows(30)
    assert not most.knows(20)


def test_an_object_that_goes_while_a_piece_has_it_stays_known() -> None:
    looks = Looks(1, 0, (Look(10, {"a": 3}), Look(20, {"a": 7})))
    assert looks.with_look(Look(30, {}), 10, {"a"}).ranges(10, 20) == [Range("a", 3, 7)]


@contextmanager
def opened_feed(late: Latecomer, warehouse: Path) -> Iterator[tuple[LookFeed, Place]]:
    services = Services()
    store = open_patient_store(parse(late.url, {}), services)
    with (
        opened_place(str(warehouse)) as place,
        opened_consumer(late.url, place.name, services) as consumer,
    ):
        yield LookFeed(NO_SPARK, late.url, consumer, Reaches(store, services), place, 0), place
        consumer.move(0)
        consumer.loop.run(store.close())


def test_every_event_is_in_one_piece_however_late_it_is_stored(tmp_path: Path) -> None:
    late = Latecomer(tmp_path / "queue")
    asyncio.run(late.begin())
    with opened_feed(late, tmp_path / "warehouse") as (feed, place):
        asyncio.run(late.enqueue("first"))
        heads = [0, feed.head(0)]
        late.arrive()
        heads.append(feed.head(0))
        assert feed.head(0) == heads[-1], "nothing new is no look"
        looks = stored_looks(place, 0).looks
        pieces = [looks.ranges(*pair) for pair in pairwise(heads)]
    keys = [[one.key for one in piece if one.key != CHARTER] for piece in pieces]
    assert keys == [[key_of("first")], [key_of("late")]]


def test_somebody_who_was_faster_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Latecomer(tmp_path / "queue")
    asyncio.run(late.enqueue("first"))
    with opened_feed(late, tmp_path / "warehouse") as (feed, place):
        put = place.put

        def put_late(key: str, *arguments: Any) -> Any:
            monkeypatch.undo()
            faster.append(feed.head(0))
            return put(key, *arguments)

        faster: list[int] = []
        monkeypatch.setattr(place, "put", put_late)
        assert [feed.head(0)] == faster
        assert [look.number for look in stored_looks(place, 0).looks.taken] == faster

        def never(key: str, *arguments: Any) -> Any:
            raise PreconditionFailed(place.name, key)

        asyncio.run(late.enqueue("second"))
        monkeypatch.setattr(place, "put", never)
        with pytest.raises(WarehouseBusy, match=LOOKS):
            feed.head(0)


def test_tables_that_no_look_knows_of_are_refused(tmp_path: Path) -> None:
    late = Latecomer(tmp_path / "queue")
    asyncio.run(late.enqueue("first"))
    with opened_feed(late, tmp_path / "warehouse") as (feed, place):
        with pytest.raises(ForeignWarehouse, match="says nothing of 7"):
            feed.head(7)
        for damaged in (b"{}", b'{"format":9,"start":0}'):
            place.put(LOOKS, damaged, Overwrite())
            with pytest.raises(ForeignWarehouse):
                feed.head(0)


async def test_an_object_that_can_t_be_read_is_news_once_it_was_repaired(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    event = Enqueued(7, 1.0, "acme", "default", "work", "a", 7, 1.0)
    data = encode_task(Task("acme", "a", events=(event,)))
    await store.put(f"{TASKS}0/acme.a.json", data[:-2], Overwrite())
    reaches = Reaches(store, Services())
    with caplog.at_level(logging.WARNING):
        assert (await reaches.found({})).further == {}
    assert "acme.a.json" in caplog.text
    await store.put(f"{TASKS}0/acme.a.json", data, Overwrite())
    found = await reaches.found({"tasks/1/gone.json": 9})
    assert found.further == {f"{TASKS}0/acme.a.json": 7}
    assert found.gone == {"tasks/1/gone.json"}


async def test_events_that_were_trimmed_before_they_were_read_are_said_to_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    events = tuple(
        Archived(position, 1.0, "acme", "default", "work", "a", 1)
        for position in range(1, stories.EVENTS_KEPT + 1)
    )
    await store.put(
        f"{TASKS}0/acme.a.json", encode_task(Task("acme", "a", events=events)), Create()
    )
    reaches = Reaches(store, Services())
    with caplog.at_level(logging.WARNING):
        await reaches.found({f"{TASKS}0/acme.a.json": 2})
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        await reaches.found({f"{TASKS}0/acme.a.json": 1})
    assert "keeps its newest 2000 events" in caplog.text


def key_of(id: str) -> str:
    return task_key(task_name("default", id))
