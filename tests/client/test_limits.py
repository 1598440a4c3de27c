"""What has a limit, and what is let go of at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.client.newjob import META_BYTES_MAX
from penstock.kernel.plain import ERROR_CHARACTERS_MAX
from penstock.stores.memory import MemoryStore
from penstock.testing.conformance.backend.steps import nonzero


async def test_meta_is_for_small_things() -> None:
    async with penstock.open("memory://") as queue:
        with pytest.raises(penstock.InvalidJob, match="use the payload"):
            await queue.enqueue("work", meta={"all of it": "x" * META_BYTES_MAX})
        assert nonzero((await queue.stats()).totals) == {}


async def test_an_endless_error_is_cut() -> None:
    async with penstock.open("memory://") as queue:
        await queue.enqueue("work", id="a")
        [job] = await queue.claim()
        await queue.nack(job, "no! " * ERROR_CHARACTERS_MAX)
        failed = await queue.get("a")
        assert failed is not None
        assert len(failed.errors[0].message) == ERROR_CHARACTERS_MAX


class Closing(MemoryStore):
    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


async def test_a_store_of_the_callers_stays_open() -> None:
    store = Closing()
    async with penstock.open(store=store):
        pass
    assert not store.is_closed


async def test_a_store_made_for_the_queue_is_closed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Closing()
    monkeypatch.setattr("penstock.wiring.open_store", lambda address: store)
    async with penstock.open(str(tmp_path / "queue")):
        assert not store.is_closed
    assert store.is_closed
