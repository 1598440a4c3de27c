"""A store that goes wrong on purpose, the same way for the same seed.

Put it between a queue and any store to see what your application makes of a bad day:

    store = FaultyStore(MemoryStore(), clock, random.Random(7), Faults(put_lost_answer=0.1))

All luck comes from the `rng` and all waiting goes through the clock, so a seed and a clock that
jumps make a run that can be repeated exactly. `fail_next` scripts single faults, `heal` ends all
of them, `injected` tells what happened. Several clients of one store, each with its own troubles,
are several `FaultyStore`s around it; a late put lands even when its client is gone.
"""

from __future__ import annotations

import asyncio
import math
import random  # noqa: TID251 - only its type: the caller brings the luck
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from penstock.errors import (
    PreconditionFailed,
    PutUnknown,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from penstock.ports.clock import Clock
from penstock.ports.store import Entry, ObjectStore, Overwrite, PutMode, StoredObject, Written
from penstock.stores.layers.layer import Layer
from penstock.testing.faults import CHANCES, Fault, Faults, Operation

INJECTIONS_KEPT_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault that was injected; `at` by the clock."""

    at: float
    operation: Operation
    key: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class _Script:
    fault: Fault
    prefix: str


@dataclass(frozen=True, slots=True, eq=False)
class _LatePut:
    key: str
    data: bytes
    mode: PutMode
    due_at: float


class FaultyStore(Layer):
    """For one event loop. `faults` may be exchanged at any time."""

    def __init__(
        self, store: ObjectStore, clock: Clock, rng: random.Random, faults: Faults | None = None
    ) -> None:
        super().__init__(store)
        self.faults = faults or Faults()
        self._clock = clock
        self._rng = rng
        self._scripts: dict[Operation, deque[_Script]] = {name: deque() for name in CHANCES}
        self._late: dict[_LatePut, asyncio.Task[None]] = {}
        self._throttled_until = -math.inf
        self._denied_until = -math.inf
        self._injected: deque[Injection] = deque(maxlen=INJECTIONS_KEPT_MAX)

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        self._chances = {operation: faults.chances(operation) for operation in CHANCES}

    @property
    def injected(self) -> tuple[Injection, ...]:
        """What went wrong so far, in order."""
        return tuple(self._injected)

    @property
    def late_puts(self) -> int:
        """How many puts are still on their way after their client gave up."""
        return len(self._late)

    def fail_next(
        self, operation: Operation, fault: Fault, *, prefix: str = "", times: int = 1
    ) -> None:
        """Scripts what befalls the next such requests whose key has the prefix."""
        if fault not in (possible for possible, _ in CHANCES[operation]):
            raise ValueError(f"{fault} can't befall a {operation}")
        self._scripts[operation].extend([_Script(fault, prefix)] * times)

    async def heal(self, *, land_late_puts: bool = True) -> None:
        """Ends all trouble; puts that are still on their way arrive now, or never."""
        self.faults = Faults()
        self._throttled_until = self._denied_until = -math.inf
        for scripts in self._scripts.values():
            scripts.clear()
        late = sorted(self._late, key=lambda put: put.due_at)
        for put in late:
            self._late.pop(put).cancel()
        if land_late_puts:
            for put in late:
                await self._land(put)

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        fault, seconds = self._draw("put", key), self._latency_seconds()
        if self.faults.conditions_ignored:
            mode = Overwrite()
        await self._wait(seconds / 2)
        if fault is Fault.ERROR:
            raise StoreUnavailable(self.name, key, "injected: not applied")
        if fault is Fault.DENIED:
            raise StoreDenied(self.name, key, "injected: the credentials expired")
        if fault is Fault.THROTTLED:
            # An adapter can't tell a 503 that was not applied from one that was.
            raise PutUnknown(self.name, key, "injected: 503 slow down")
        if fault in (Fault.LOST_REQUEST, Fault.LATE):
            if fault is Fault.LATE:
                self._send_late(key, data, mode)
            await self._wait(self.faults.answer_timeout_seconds)
            raise PutUnknown(self.name, key, "injected: no answer")
        written = await self._store.put(key, data, mode)
        await self._wait(seconds / 2)
        if fault is Fault.LOST_ANSWER:
            await self._wait(self.faults.answer_timeout_seconds)
            raise PutUnknown(self.name, key, "injected: the answer was lost")
        if fault is Fault.ECHO and not isinstance(mode, Overwrite):
            raise PreconditionFailed(self.name, key)
        return written

    async def get(self, key: str) -> StoredObject:
        fault, seconds = self._draw("get", key), self._latency_seconds()
        await self._wait(seconds / 2)
        self._refuse_reading(fault, key)
        stored = await self._store.get(key)
        await self._wait(seconds / 2)
        if fault is Fault.SLOW:
            await self._wait(self.faults.get_slow_seconds)
        if fault is Fault.TRUNCATED and stored.data:
            return replace(stored, data=stored.data[: self._rng.randrange(len(stored.data))])
        if fault is Fault.FLIPPED and stored.data:
            return replace(stored, data=_flipped(stored.data, self._rng))
        return stored

    async def delete(self, key: str) -> None:
        fault, seconds = self._draw("delete", key), self._latency_seconds()
        await self._wait(seconds / 2)
        self._refuse_reading(fault, key)
        await self._store.delete(key)
        await self._wait(seconds / 2)
        if fault is Fault.LOST_ANSWER:
            raise StoreUnavailable(self.name, key, "injected: the answer was lost")

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        fault, seconds = self._draw("list", prefix), self._latency_seconds()
        await self._wait(seconds / 2)
        self._refuse_reading(fault, prefix)
        entries = [entry async for entry in self._store.list(prefix, start_after)]
        await self._wait(seconds / 2)
        for entry in self._seen(entries, fault):
            yield entry

    def _draw(self, operation: Operation, key: str) -> Fault | None:
        """Decides a request's fate with exactly one number, so that seeds keep their meaning."""
        number = self._rng.random()
        fault = self._scripted(operation, key) or self._spell()
        if fault is None:
            for possible, chance in self._chances[operation]:
                if number < chance:
                    fault = possible
                    self._begin_spell(fault)
                    break
                number -= chance
        if fault is not None:
            self._injected.append(Injection(self._clock.now(), operation, key, fault))
        return fault

    def _scripted(self, operation: Operation, key: str) -> Fault | None:
        scripts = self._scripts[operation]
        for script in scripts:
            if key.startswith(script.prefix):
                scripts.remove(script)
                return script.fault
        return None

    def _spell(self) -> Fault | None:
        elapsed = self._clock.elapsed()
        if elapsed < self._denied_until:
            return Fault.DENIED
        return Fault.THROTTLED if elapsed < self._throttled_until else None

    def _begin_spell(self, fault: Fault) -> None:
        elapsed = self._clock.elapsed()
        if fault is Fault.THROTTLED:
            self._throttled_until = elapsed + self.faults.throttling_seconds
        elif fault is Fault.DENIED:
            self._denied_until = elapsed + self.faults.denial_seconds

    def _refuse_reading(self, fault: Fault | None, key: str) -> None:
        if fault is Fault.DENIED:
            raise StoreDenied(self.name, key, "injected: the credentials expired")
        if fault in (Fault.ERROR, Fault.THROTTLED):
            raise StoreUnavailable(self.name, key, f"injected: {fault.value}")

    def _latency_seconds(self) -> float:
        if self.faults.latency_seconds <= 0:
            return 0.0
        median = math.log(self.faults.latency_seconds)
        return self._rng.lognormvariate(median, self.faults.latency_spread)

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(seconds)

    def _send_late(self, key: str, data: bytes, mode: PutMode) -> None:
        timeout_seconds = self.faults.answer_timeout_seconds
        seconds = timeout_seconds + self._rng.uniform(0.001, self.faults.late_seconds_max)
        put = _LatePut(key, data, mode, self._clock.elapsed() + seconds)
        loop = asyncio.get_running_loop()
        self._late[put] = loop.create_task(self._arrive(put, seconds), name=f"late put of {key}")

    async def _arrive(self, put: _LatePut, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._late[put]
        await self._land(put)

    async def _land(self, put: _LatePut) -> None:
        try:
            await self._store.put(put.key, put.data, put.mode)
        except StoreError:
            # Its precondition is judged now, and nobody is left to hear the verdict.
            return

    def _seen(self, entries: Sequence[Entry], fault: Fault | None) -> Sequence[Entry]:
        if fault is Fault.MISSED_RECENT:
            fresh_after = self._clock.now() - self.faults.list_recent_seconds
            return [entry for entry in entries if entry.modified_at <= fresh_after]
        if fault is Fault.LOST_PAGE and entries:
            page = self.faults.list_page_keys
            lost = self._rng.randrange(math.ceil(len(entries) / page)) * page
            return [*entries[:lost], *entries[lost + page :]]
        return entries


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)
