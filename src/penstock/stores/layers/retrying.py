"""Tries again what is safe to try again.

Reads, deletes and overwrites can be repeated: the second time changes nothing. A put with `Create`
or `Replace` can't: after a lost answer the repetition would be refused by its own first attempt.
Those go through once, and the engine that sent them finds out what became of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from penstock.errors import PutUnknown, StoreError, StoreUnavailable
from penstock.ports.clock import Clock
from penstock.ports.store import Entry, ObjectStore, Overwrite, PutMode, StoredObject, Written
from penstock.runtime.backoff import Backoff, system_luck
from penstock.stores.layers.layer import Layer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreRetryPolicy:
    """When to give up, whichever comes first, and how long to wait in between."""

    attempts_max: int = 8
    seconds_max: float = 30.0
    initial_seconds: float = 0.05
    multiplier: float = 2.0
    wait_seconds_max: float = 5.0
    jitter: float = 0.5


class Retrying(Layer):
    """Waits out throttling, 5xx and network trouble, within the policy's limits."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        policy: StoreRetryPolicy | None = None,
        *,
        luck: Callable[[], float] = system_luck,
    ) -> None:
        super().__init__(store)
        self._clock = clock
        self._policy = policy or StoreRetryPolicy()
        self._luck = luck

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if not isinstance(mode, Overwrite):
            return await self._store.put(key, data, mode)
        return await self._repeat(lambda: self._store.put(key, data, mode))

    async def get(self, key: str) -> StoredObject:
        return await self._repeat(lambda: self._store.get(key))

    async def delete(self, key: str) -> None:
        await self._repeat(lambda: self._store.delete(key))

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        tries = self._tries()
        cursor = start_after
        while True:
            try:
                async for entry in self._store.list(prefix, cursor):
                    yield entry
                    # A listing that breaks goes on where it was, and what came counts as success.
                    cursor = entry.key
                    tries.restart()
                return
            except StoreUnavailable as error:
                await tries.wait_after(error)

    async def _repeat(self, act: Callable[[], Awaitable[T]]) -> T:
        tries = self._tries()
        while True:
            try:
                return await act()
            except (StoreUnavailable, PutUnknown) as error:
                await tries.wait_after(error)

    def _tries(self) -> _Tries:
        return _Tries(self._clock, self._policy, self._luck)


def without_repeats(store: ObjectStore) -> ObjectStore:
    """The store below, for a delete of what may be there again when it arrives a second time."""
    return store._store if isinstance(store, Retrying) else store


class _Tries:
    """The attempts of one call so far."""

    def __init__(self, clock: Clock, policy: StoreRetryPolicy, luck: Callable[[], float]) -> None:
        self._clock = clock
        self._policy = policy
        self._backoff = Backoff(
            policy.initial_seconds,
            policy.multiplier,
            policy.wait_seconds_max,
            policy.jitter,
            luck,
        )
        self.restart()

    def restart(self) -> None:
        self._failures = 0
        self._started = self._clock.elapsed()
        self._backoff.reset()

    async def wait_after(self, error: StoreError) -> None:
        """Waits for the next attempt, or raises the error if there is to be none."""
        self._failures += 1
        if self._failures >= self._policy.attempts_max:
            raise error
        seconds = self._backoff.next_seconds()
        if self._clock.elapsed() - self._started + seconds > self._policy.seconds_max:
            raise error
        await self._clock.sleep(seconds)
