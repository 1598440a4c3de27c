"""What a store of records must take in one change, however much it is."""

from __future__ import annotations

from penstock.kernel.departures import Departed
from penstock.kernel.job import State
from penstock.kernel.tenancy import Hold
from penstock.ports.counters import CountChange
from penstock.ports.records import (
    Departure,
    HoldChange,
    KeyHold,
    Need,
    Put,
    Record,
    RecordStore,
    Remembered,
    Removal,
    Shelf,
)
from penstock.testing.clock import EPOCH
from penstock.testing.conformance.record_steps import a_record, find, lives, write

MANY = 9_000
SCOPE = ("default", "work", "k")


class RecordBulkConformance:
    """Each part of a change may have thousands of items, over as many tenants and queues."""

    async def test_a_change_of_very_much_of_everything_is_written_whole(
        self, store: RecordStore
    ) -> None:
        """However many tenants, queues, claims and keys: a server's limits are the store's."""
        many = [_one_of_many(n) for n in range(MANY)]
        holds = [KeyHold(one.tenant, SCOPE, Hold(one.id, one.life, EPOCH)) for one in many]
        left = [Departure(one.tenant, one.id, one.life, (one.life,)) for one in many]
        counts = [CountChange(one.tenant, one.queue, one.type, State.RUNNING, 1, 0) for one in many]
        assert await write(
            store,
            puts=[Put(one, None) for one in many],
            holds=[HoldChange(hold.tenant, SCOPE, None, hold) for hold in holds],
            counts=counts,
            departures=left,
            remembered=[
                Remembered(one.tenant, one.id, Departed(EPOCH + 600, ("call",))) for one in many
            ],
            sides={f"data/{one.id}": None for one in many},
        )
        assert len(await store.commits(0, 9)) == 1
        assert len(await store.tenants()) == MANY
        need = Need(ids=[(one.tenant, one.id) for one in many])
        found = {one.life: one.version for one in (await find(store, need)).records}
        assert len(found) == MANY
        removals = [Removal(one.tenant, one.id, one.life, found[one.life]) for one in many]
        freed = [HoldChange(hold.tenant, SCOPE, hold.hold.life, None) for hold in holds]
        assert await write(store, need, removals=removals, holds=freed)
        assert await lives(store, need) == []


def _one_of_many(n: int) -> Record:
    name = f"n{n}"
    return a_record(
        name, n + 1, tenant=name, queue=name, type=name, key=SCOPE[2], claim=name,
        shelf=Shelf.RUNNING,
    )  # fmt: skip
