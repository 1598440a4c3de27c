"""Does a store keep the promises that a queue is built on? Asked of the store itself, by using it.

Everything is written under `probe/` of the queue's root, where the queue's own probes are, and
deleted afterwards. Nothing else is touched, so it can be done while the queue is in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from penstock.engines.calibration import CommitClock
from penstock.engines.ledger.marker import try_put
from penstock.engines.names import PROBES
from penstock.errors import ObjectNotFound, StoreError
from penstock.insights.checks import Check, Verdict
from penstock.kernel.settings import DEFAULT_SETTINGS
from penstock.ports.store import Create, ObjectStore, Overwrite, PutMode, Replace
from penstock.runtime.services import Services

WRITERS: Final = 8
"""How many race for one key."""
ROUNDS: Final = 5
LATENCY_SAMPLES: Final = 20
SLOW_SECONDS: Final = 1.0
"""A put that takes longer in half of all cases makes every call slow."""


class Probes:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._services = services
        self._clock = services.clock
        self._keys: set[str] = set()

    async def run(self) -> AsyncIterator[Check]:
        """One check after the other; if the store can't be reached, that is the only one."""
        try:
            reachable = await self._reachable()
            yield reachable
            if reachable.verdict == "fail":
                return
            for probe in (
                self._creates, self._replaces, self._reads_follow_writes, self._lists_follow_writes,
                self._clocks_agree, self._latency,
            ):  # fmt: skip
                yield await self._answered(probe)
        finally:
            for key in self._keys:
                await self._quietly_delete(key)

    async def _answered(self, probe: Callable[[], Awaitable[Check]]) -> Check:
        try:
            return await probe()
        except StoreError as error:
            return _check(probe.__name__.strip("_").replace("_", " "), "fail", str(error))

    async def _reachable(self) -> Check:
        key = self._key()
        try:
            await self._store.put(key, b"hello", Overwrite())
            await self._store.get(key)
            await self._store.delete(key)
            await self._store.delete(key)
        except StoreError as error:
            return _check("reachable", "fail", str(error))
        return _check("reachable", "ok", f"{self._store.name}: put, get and delete work")

    async def _creates(self) -> Check:
        """Of those who create one key at once, one wins, and it is theirs that is read."""
        for _ in range(ROUNDS):
            key = self._key()
            problem = await self._race(key, Create())
            if problem:
                return _check("conditional create", "fail", f"{problem}: jobs would be lost")
        return _check(
            "conditional create", "ok", f"{ROUNDS} races of {WRITERS}, one winner in each"
        )

    async def _replaces(self) -> Check:
        for _ in range(ROUNDS):
            key = self._key()
            first = await self._store.put(key, self._body(), Create())
            problem = await self._race(key, Replace(first.version))
            if not problem and await try_put(
                self._store, key, self._body(), Replace(first.version)
            ):
                problem = "an old version was accepted"
            if problem:
                return _check("conditional replace", "fail", f"{problem}: updates would be lost")
        return _check(
            "conditional replace", "ok", f"{ROUNDS} races of {WRITERS}, old versions refused"
        )

    async def _race(self, key: str, mode: PutMode) -> str:
        """What is wrong with the outcome of a race; nothing if all is well."""
        bodies = [self._body() for _ in range(WRITERS)]
        told = await asyncio.gather(*(try_put(self._store, key, body, mode) for body in bodies))
        winner = (await self._store.get(key)).data
        wins = [body for body, won in zip(bodies, told, strict=True) if won]
        if len(wins) > 1:
            return f"{len(wins)} of {WRITERS} were told that they had won"
        if not wins and None not in told:
            return "nobody won"
        if wins and wins[0] != winner:
            return "what is stored is not the winner's"
        return ""

    async def _reads_follow_writes(self) -> Check:
        key, name = self._key(), "read after write"
        for number in range(LATENCY_SAMPLES):
            body = self._body()
            await self._store.put(key, body, Overwrite())
            if (await self._store.get(key)).data != body:
                return _check(name, "fail", f"read {number + 1} gave what was there before")
        await self._store.delete(key)
        try:
            await self._store.get(key)
        except ObjectNotFound:
            return _check(name, "ok", f"{LATENCY_SAMPLES} of {LATENCY_SAMPLES} reads were fresh")
        return _check(name, "warn", "a deleted object can still be read")

    async def _lists_follow_writes(self) -> Check:
        """Nothing correct depends on it, but much is slower where it does not hold."""
        name, prefix = "list after write", f"{PROBES}{self._services.new_secret()}/"
        keys = [f"{prefix}{number:02d}" for number in range(ROUNDS * 2)]
        missing = 0
        for key in keys:
            self._keys.add(key)
            await self._store.put(key, b"", Create())
            missing += key not in [entry.key async for entry in self._store.list(prefix)]
        listed = [entry.key async for entry in self._store.list(prefix)]
        if listed != sorted(listed):
            return _check(name, "fail", "names are not listed in order: the log can't be found")
        if missing:
            return _check(name, "warn", f"{missing} of {len(keys)} new objects were not listed yet")
        return _check(name, "ok", f"{len(keys)} of {len(keys)} new objects were listed, in order")

    async def _clocks_agree(self) -> Check:
        clock, name = CommitClock(self._store, self._services), "clock"
        await clock.calibrate()
        skew, limit = clock.skew_seconds, DEFAULT_SETTINGS.clock_skew_seconds
        if abs(skew) > limit:
            return _check(name, "fail", f"{skew:+.1f} s from the store's, over {limit:g} s: set it")
        verdict: Verdict = "warn" if abs(skew) > limit / 2 else "ok"
        return _check(name, verdict, f"{skew:+.3f} s from the store's, {limit:g} s are allowed")

    async def _latency(self) -> Check:
        creates, reads, lists = [], [], []
        for _ in range(LATENCY_SAMPLES):
            key = self._key()
            creates.append(await self._timed(self._store.put(key, self._body(), Create())))
            reads.append(await self._timed(self._store.get(key)))
            lists.append(await self._timed(self._list(PROBES)))
        words = "; ".join(
            f"{what} {_percentiles(times)}"
            for what, times in (("create", creates), ("get", reads), ("list", lists))
        )
        verdict: Verdict = "warn" if percentile(creates, 0.5) > SLOW_SECONDS else "ok"
        return _check("latency", verdict, f"{words} (p50/p90/p99 ms)")

    async def _timed(self, request: Awaitable[object]) -> float:
        started_at = self._clock.elapsed()
        await request
        return self._clock.elapsed() - started_at

    async def _list(self, prefix: str) -> None:
        async for _ in self._store.list(prefix):
            continue

    async def _quietly_delete(self, key: str) -> None:
        try:
            await self._store.delete(key)
        except StoreError:
            return  # litter under `probe/` harms nobody

    def _key(self) -> str:
        key = PROBES + self._services.new_secret()
        self._keys.add(key)
        return key

    def _body(self) -> bytes:
        return self._services.new_secret().encode()


def percentile(values: Sequence[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * fraction), len(ordered) - 1)]


def _percentiles(seconds: Sequence[float]) -> str:
    return "/".join(f"{percentile(seconds, fraction) * 1000:.1f}" for fraction in (0.5, 0.9, 0.99))


def _check(check: str, verdict: Verdict, detail: str) -> Check:
    return Check("store", check, verdict, detail)
