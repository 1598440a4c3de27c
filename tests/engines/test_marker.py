"""A queue whose marker is gone is not taken for an empty place."""

from __future__ import annotations

import pytest

import penstock
from penstock.engines.ledger.names import MARKER
from penstock.errors import Corrupt
from penstock.stores.memory import MemoryStore
from penstock.testing.conformance.backend.steps import found


@pytest.mark.parametrize("layout", ["single", "tasks"])
async def test_a_marker_that_is_gone_is_an_error_and_never_a_new_empty_log(layout: str) -> None:
    store = MemoryStore()
    async with penstock.open(store=store, layout=layout, allow_no_versioning=True) as queue:
        await queue.enqueue("work", id="job")
    await store.delete(MARKER)
    with pytest.raises(Corrupt, match=f"layout={layout}"):
        await penstock.open(store=store, allow_no_versioning=True).start()
    async with penstock.open(store=store, layout=layout, allow_no_versioning=True) as queue:
        assert (await found(queue, "job")).id == "job"
    async with penstock.open(store=store, allow_no_versioning=True) as queue:
        assert (await found(queue, "job")).id == "job", "the marker was written again"


async def test_a_log_whose_marker_is_gone_goes_on_as_it_was() -> None:
    store = MemoryStore()
    async with penstock.open(store=store) as queue:
        await queue.enqueue("work", id="job")
    await store.delete(MARKER)
    with pytest.raises(Corrupt, match="layout=log"):
        await penstock.open(store=store, layout="single").start()
    async with penstock.open(store=store) as queue:
        assert (await found(queue, "job")).id == "job"
