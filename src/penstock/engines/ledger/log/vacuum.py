"""Vacuum: deletes what has outlived the retention, and nothing that anybody could still need.

In this order, so that a crash between any two steps leaves at most garbage. What needs no write
comes first, so that a full store gets some room (`engines.room`): the checkpoints beyond the newest
two, if these are good.

1. The newest checkpoint is proven: the one before it, with the log between them folded in, must
   give the same bytes. A checkpoint that nobody could reproduce is no ground to delete the log on.
2. The floor is raised to the first slot that must stay: above the older of the two checkpoints
   nothing goes, so that a bad newest one can still be skipped; nor anything younger than the
   retention by the store's own clock, nor what a registered consumer has yet to read.
3. Below the floor, log objects are deleted.
4. Import objects whose jobs are all admitted, or whose run nobody published, are deleted; see
   `imports.sweep`.
5. A commit forbids the publication of side objects named before the retention; then those that no
   job and no retained event refers to are deleted.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.engines.calibration import CommitClock
from penstock.engines.consumers import Execute, drop_silent
from penstock.engines.ledger.imports.sweep import sweep_imports
from penstock.engines.ledger.log.floor import raise_floor, read_floor
from penstock.engines.ledger.log.reader import LogReader
from penstock.engines.ledger.log.startup import checkpoints
from penstock.engines.ledger.names import LOG, checkpoint_key, commit_in
from penstock.engines.ledger.sweep import sweep_data
from penstock.errors import Corrupt
from penstock.kernel.commands import Expire
from penstock.kernel.events import SYSTEM_TENANT, commit_of
from penstock.kernel.state import QueueState
from penstock.ports.backend import VacuumReport
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.snapshot import checkpoint_of, decode_checkpoint, restore


class Vacuum:
    def __init__(
        self, store: ObjectStore, reader: LogReader, services: Services, clock: CommitClock
    ) -> None:
        self._store = store
        self._reader = reader
        self._services = services
        self._clock = clock

    async def run(self, current: Callable[[], QueueState], execute: Execute) -> VacuumReport:
        old_checkpoints = await self._delete_checkpoints()
        # Asked for its answer's sake: consumers and settings are those of now, not of when
        # this process last looked.
        await execute(Expire(SYSTEM_TENANT))
        await drop_silent(current().consumers, self._clock.now(), execute)
        state = current()
        horizon = self._clock.now() - state.settings.retention_seconds()
        floor = await self._raise_floor(state, horizon)
        log_objects = await self._delete_log(floor)
        import_objects = await sweep_imports(self._store, current, execute, horizon)
        data_objects = await sweep_data(self._store, current, execute, horizon)
        return VacuumReport(floor, log_objects, old_checkpoints, data_objects, import_objects)

    async def prove(self, older: int, newest: int) -> None:
        """Folds the log between two checkpoints and compares: byte for byte, or `Corrupt`."""
        key = checkpoint_key(older)
        head, jobs = decode_checkpoint(key, (await self._store.get(key)).data)
        state, chain = restore(head.overview, jobs, head.at), head.chain
        stamp = head.stamp
        for number in range(older + 1, newest + 1):
            commit = await self._reader.commit(number)
            if commit.header.previous != chain:
                raise Corrupt(f"commit {number}", "it does not continue the commit before it")
            chain, stamp = commit.chain, commit.header.stamp
            state.fold(stamp.at, commit.events)
        folded = checkpoint_of(
            state, commit=newest, chain=chain, at=stamp.at, clock=stamp.lagging_clock
        )
        if folded != (await self._store.get(checkpoint_key(newest))).data:
            raise Corrupt(checkpoint_key(newest), "it is not the fold of the log before it")

    async def _raise_floor(self, state: QueueState, horizon: float) -> int:
        """Answers where the floor is then."""
        floor = await read_floor(self._store)
        stored = await checkpoints(self._store)
        if len(stored) < 2:
            return floor
        (newest, _), (older, _) = stored[:2]
        reached = [commit_of(position) for position, _ in state.consumers.values()]
        target = await self._first_to_stay(floor, min([older + 1, *reached]), horizon)
        if target <= floor:
            return floor
        await self.prove(older, newest)
        return await raise_floor(self._store, target, self._services)

    async def _first_to_stay(self, floor: int, limit: int, horizon: float) -> int:
        first = floor
        async for entry in self._store.list(LOG):
            commit = commit_in(entry.key)
            if commit is None or commit < floor:
                continue
            if commit >= limit or entry.modified_at >= horizon:
                break
            first = commit + 1
        return first

    async def _delete_log(self, floor: int) -> int:
        deleted = 0
        async for entry in self._store.list(LOG):
            commit = commit_in(entry.key)
            if commit is None or commit >= floor:
                break
            await self._store.delete(entry.key)
            deleted += 1
        return deleted

    async def _delete_checkpoints(self) -> int:
        """All but the newest two, when these are good."""
        stored = await checkpoints(self._store)
        if len(stored) <= 2:
            return 0
        (newest, _), (older, _) = stored[:2]
        await self.prove(older, newest)
        for _, key in stored[2:]:
            await self._store.delete(key)
        return len(stored) - 2
