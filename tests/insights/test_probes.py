"""The probes find the faults that would cost jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from penstock.errors import StoreDenied
from penstock.insights.checks import Check
from penstock.insights.probes import Probes, percentile
from penstock.ports.store import Create, Entry, Overwrite, PutMode, Replace, StoredObject, Written
from penstock.runtime.clock import SystemClock
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore


async def examined(store: MemoryStore) -> dict[str, Check]:
    return {check.check: check async for check in Probes(store, Services()).run()}


async def test_a_good_store_passes_and_is_left_empty() -> None:
    store = MemoryStore()
    checks = await examined(store)
    assert {check.verdict for check in checks.values()} == {"ok"}
    assert len(checks) == 7
    assert [entry.key async for entry in store.list("")] == []


class Indifferent(MemoryStore):
    """Takes a condition for decoration, as some S3-alikes have done."""

    ignored: type[Create | Replace] = Create

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await super().put(key, data, Overwrite() if isinstance(mode, self.ignored) else mode)


@pytest.mark.parametrize(
    ("ignored", "check"), [(Create, "conditional create"), (Replace, "conditional replace")]
)
async def test_conditions_that_are_ignored_fail(
    ignored: type[Create | Replace], check: str
) -> None:
    store = Indifferent()
    store.ignored = ignored
    checks = await examined(store)
    assert checks[check].verdict == "fail"
    assert "8 of 8" in checks[check].detail


async def test_reads_of_the_past_fail() -> None:
    class Stale(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self._first: dict[str, StoredObject] = {}

        async def get(self, key: str) -> StoredObject:
            return self._first.setdefault(key, await super().get(key))

    assert (await examined(Stale()))["read after write"].verdict == "fail"


async def test_lists_that_lag_are_a_warning() -> None:
    class Lagging(MemoryStore):
        async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
            listed = super().list(prefix, start_after)
            for entry in [entry async for entry in listed][:-1]:
                yield entry

    assert (await examined(Lagging()))["list after write"].verdict == "warn"


@pytest.mark.parametrize(("seconds", "verdict"), [(0.5, "ok"), (1.6, "warn"), (-30, "fail")])
async def test_a_clock_that_is_off_is_noticed(seconds: float, verdict: str) -> None:
    elsewhere = MemoryStore(now=lambda: SystemClock().now() + seconds)
    assert (await examined(elsewhere))["clock"].verdict == verdict


async def test_a_store_that_cannot_be_reached_is_asked_nothing_more() -> None:
    class Closed(MemoryStore):
        async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
            raise StoreDenied("memory", key, "no")

    checks = await examined(Closed())
    assert [check.verdict for check in checks.values()] == ["fail"]


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, fraction) for fraction in (0.5, 0.99, 1.0)] == [51.0, 100.0, 100.0]
