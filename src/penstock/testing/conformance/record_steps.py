"""What tests do with a store of records over and over."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock.kernel.job import State
from penstock.ports.counters import CountChange, DueChange, minute_of
from penstock.ports.records import (
    Change,
    Found,
    Head,
    Need,
    Put,
    Record,
    RecordStore,
    Shelf,
    Wanted,
)
from penstock.testing.clock import EPOCH


def a_record(id: str, life: int, **fields: Any) -> Record:
    given = {
        "tenant": "default", "queue": "default", "type": "work", "key": None, "priority": 0,
        "shelf": Shelf.PENDING, "at": EPOCH, "claim": None, "body": b"{}",
        "id": id, "life": life, **fields,
    }  # fmt: skip
    return Record(**given)


def a_change(commit: int, charter_found: int = 0, **fields: Any) -> Change:
    given = {
        "commit": commit, "at": EPOCH + commit, "clock": EPOCH, "events": b"commit %d" % commit,
        "charter_found": charter_found, "charter": None, "removals": (), "puts": (), "holds": (),
        "unheard": (), "counts": (), "due": (), "completed": 0, "departures": (),
        "remembered": (), "sides": {}, "lapsed_at": 0.0, **fields,
    }  # fmt: skip
    return Change(**given)


def candidates(count: int = 9, due_by: float = EPOCH, **fields: Any) -> Need:
    given = {"tenant": "default", "queues": None, "paused": frozenset(), "types": None, **fields}
    return Need(wanted=[Wanted(due_by=due_by, count=count, **given)])


async def write(store: RecordStore, need: Need | None = None, /, **fields: Any) -> bool:
    """One turn that writes this, whatever it finds."""
    heads: list[Head] = []

    def ask(head: Head) -> Need:
        heads.append(head)
        return need or Need()

    def decide(found: Found) -> Change:
        given = {"charter_found": heads[-1].charter_version, **fields}
        return a_change(found.commit, **given)

    return await store.turn(ask, decide, is_read=False)


async def put(store: RecordStore, *records: Record) -> None:
    """With what they add to the counters."""
    pending = [record for record in records if record.shelf is Shelf.PENDING]
    counts = Counter((one.tenant, one.queue, one.type) for one in pending)
    due = Counter((one.tenant, one.queue, one.type, minute_of(one.at)) for one in pending)
    assert await write(
        store,
        puts=[Put(record, None) for record in records],
        counts=[CountChange(*place, State.PENDING, number, 0) for place, number in counts.items()],
        due=[
            DueChange(*place, number)
            for place, number in due.items()
            if place[-1] > minute_of(EPOCH)
        ],
    )


async def find(store: RecordStore, need: Need) -> Found:
    seen: list[Found] = []
    assert await store.turn(lambda head: need, seen.append, is_read=True)
    return seen[-1]


async def lives(store: RecordStore, need: Need) -> list[int]:
    return sorted(stored.life for stored in (await find(store, need)).records)


async def version(store: RecordStore, id: str) -> int:
    [stored] = (await find(store, Need(ids=[("default", id)]))).records
    return stored.version
