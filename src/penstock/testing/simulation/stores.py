"""The one store that all simulated processes share, which remembers all; and the way to it."""

from __future__ import annotations

import random  # noqa: TID251 - the seeded generator is handed in; only its type is needed
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from penstock.engines.ledger.log.floor import FIRST_SLOT, FloorRecord
from penstock.engines.ledger.names import CHECKPOINTS, FLOOR, LOG, QUEUE, commit_in
from penstock.engines.records.tasks.names import CHARTER, TASKS
from penstock.errors import ObjectNotFound
from penstock.kernel.events import Event
from penstock.kernel.invariants import Deletion
from penstock.ports.store import Entry, PutMode, StoredObject, Written
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.faults import Faults
from penstock.testing.faulty_store import FaultyStore
from penstock.testing.simulation.clocks import SimulatedClock
from penstock.testing.simulation.loop import WORLD, SimulatedLoop
from penstock.wire.task import decode_charter_object, decode_task


class RememberedStore:
    """Objects in memory, and a memory of all that were ever committed, deleted or not.

    Unlike `MemoryStore` it can't be watched: on most stores processes have to poll.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._store = MemoryStore("simulated", now=lambda: now() + self.off_seconds)
        self.off_seconds = 0.0
        """How far off its clock is."""
        self.log: dict[int, bytes] = {}
        """The first object that each slot ever had: what everybody must agree on."""
        self.stored_at: dict[int, float] = {}
        self.documents: list[bytes] = []
        """Every version of `queue.json`."""
        self.turns: list[tuple[float, Sequence[Event], float | None]] = []
        """Of layout `tasks`, every put that brought events: when it was, those, and the clock of
        whoever brought them where their time is ahead of it."""
        self._told: set[tuple[str, int]] = set()
        self.ghosts = 0
        """Commits that were put to slots that had been vacated."""
        self.deletions: list[Deletion] = []
        self.checkpoints: dict[int, bytes] = {}
        """All that were ever stored, as they are stored."""
        self.spoiled: set[int | None] = set()
        """Checkpoints that were not stored as they were meant to be, perhaps."""
        self.floor = FIRST_SLOT

    @property
    def name(self) -> str:
        return self._store.name

    @property
    def head(self) -> int:
        """How many commits are durable."""
        return len(self.turns) or len(self.documents) or max(self.log, default=0)

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        written = await self._store.put(key, data, mode)
        if key == QUEUE:
            self.documents.append(bytes(data))
            self.stored_at[len(self.documents)] = self._now()
        elif key.startswith(LOG):
            commit = commit_in(key)
            assert commit is not None
            self.ghosts += commit in self.log
            self.log.setdefault(commit, bytes(data))
            self.stored_at.setdefault(commit, self._now())
        elif key.startswith(CHECKPOINTS):
            commit = commit_in(key)
            assert commit is not None
            self.checkpoints[commit] = bytes(data)
        elif key == FLOOR:
            self.floor = msgspec.json.decode(data, type=FloorRecord).floor
        elif key == CHARTER:
            self._note_turn(key, decode_charter_object(key, data).events)
        elif key.startswith(TASKS):
            task = decode_task(key, data)
            clock = None if task.stamp is None else task.stamp.clock
            self._note_turn(key, task.events, clock)
        return written

    def _note_turn(self, key: str, events: Sequence[Event], clock: float | None = None) -> None:
        news = [event for event in events if (key, event.position) not in self._told]
        if news:
            self._told.update((key, event.position) for event in news)
            self.turns.append((self._now(), news, clock))

    async def get(self, key: str) -> StoredObject:
        return await self._store.get(key)

    async def delete(self, key: str) -> None:
        commit = commit_in(key) if key.startswith(LOG) else None
        await self._store.delete(key)
        if commit is not None:
            held = [
                number
                async for entry in self._store.list(CHECKPOINTS)
                if (number := commit_in(entry.key)) is not None and number not in self.spoiled
            ]
            self.deletions.append(Deletion(commit, self.floor, tuple(held)))

    def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        return self._store.list(prefix, start_after)

    async def close(self) -> None:
        """Nothing to give back."""

    async def is_deleting(self) -> bool:
        """Of layout `tasks`: whether a vacuum has said that it is about to delete something."""
        try:
            data = (await self._store.get(CHARTER)).data
        except ObjectNotFound:
            return False
        return decode_charter_object(CHARTER, data).deletion is not None

    async def keys(self, prefix: str) -> set[str]:
        return {entry.key async for entry in self._store.list(prefix)}


class StampedStore(Layer):
    """The same store, by a clock that is so far off: what is put meanwhile is stamped with that."""

    def __init__(self, store: RememberedStore, off_seconds: float) -> None:
        super().__init__(store)
        self._remembered = store
        self._off_seconds = off_seconds

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        # Nobody else has a turn before it is stamped: nothing is waited for on the way.
        self._remembered.off_seconds = self._off_seconds
        try:
            return await super().put(key, data, mode)
        finally:
            self._remembered.off_seconds = 0.0


class NetworkStore(FaultyStore):
    """One process's way to the store: slow, lossy, and sometimes spoiling what is written."""

    def __init__(
        self,
        store: RememberedStore,
        loop: SimulatedLoop,
        rng: random.Random,
        faults: Faults,
        *,
        bad_checkpoints: float = 0.0,
        off_seconds: float = 0.0,
    ) -> None:
        reached = store if not off_seconds else StampedStore(store, off_seconds)
        super().__init__(reached, SimulatedClock(loop), rng, faults)
        self.bad_checkpoints = bad_checkpoints
        """How often a checkpoint is stored other than it was meant to be."""
        self.spring = ""
        """The next put under this prefix springs the trap, before or after it is applied."""
        self.on_spring: Callable[[], None] | None = None
        self._loop = loop
        self._shared = store
        self._outside = loop.within(WORLD)

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if self.spring and key.startswith(self.spring) and self.on_spring is not None:
            self.spring = ""
            if self._rng.random() < 0.3:
                written = await super().put(key, data, mode)
                await self._trapped()
                return written
            await self._trapped()
        is_checkpoint = self.bad_checkpoints > 0 and key.startswith(CHECKPOINTS)
        if is_checkpoint and self._rng.random() < self.bad_checkpoints:
            self._shared.spoiled.add(commit_in(key))
            data = _spoiled(data, self._rng)
        return await super().put(key, data, mode)

    async def _trapped(self) -> None:
        if self.on_spring is not None:
            self.on_spring()
            await self._wait(0.001)

    def _send_late(self, key: str, data: bytes, mode: PutMode) -> None:
        # What is on its way belongs to nobody: it arrives even if its sender has crashed.
        self._outside.run(super()._send_late, key, data, mode)


def _spoiled(data: bytes, rng: random.Random) -> bytes:
    """Altered bytes, which a digest must give away."""
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)
