"""Deleting import objects, when nobody can need them any more.

- Those whose rows are all admitted: when the retention has passed since, so that a process that
  lags can still decide on what it believes.
- Those of a run that was never published: when the newest is older than the retention by the
  store's clock, after a commit that forbids the publication.
- What a run left over that was published without it (attempts that failed), or was aborted.

The deletion comes first and the commit that lets the kernel forget about them last: a crash in
between leaves what the next sweep deletes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.engines.consumers import Execute
from penstock.engines.ledger.names import IMPORTS, run_in
from penstock.errors import RunPublished
from penstock.kernel.commands import AbortImport, Sweep
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.state import QueueState
from penstock.ports.store import Entry, ObjectStore

ABORTED: Final = "aborted"


async def sweep_imports(
    store: ObjectStore, current: Callable[[], QueueState], execute: Execute, horizon: float
) -> int:
    """Answers how many objects were deleted."""
    runs: dict[str, list[Entry]] = {}
    async for entry in store.list(IMPORTS):
        runs.setdefault(run_in(entry.key), []).append(entry)
    deleted = 0
    for run, entries in runs.items():
        for key in await _deletable(run, entries, current, execute, horizon):
            await store.delete(key)
            deleted += 1
    if deleted and current().swept_before < horizon:
        await execute(Sweep(SYSTEM_TENANT, horizon))
    return deleted


async def _deletable(
    run: str,
    entries: list[Entry],
    current: Callable[[], QueueState],
    execute: Execute,
    horizon: float,
) -> list[str]:
    # Names have their writer's time, which may be this far ahead of the store's.
    written_before = horizon - current().settings.clock_skew_seconds
    if _is_unknown(run, current()):
        if any(entry.modified_at >= written_before for entry in entries):
            return []
        try:
            await execute(AbortImport(SYSTEM_TENANT, run))
        except RunPublished:
            return []
        return [entry.key for entry in entries]
    state = current()
    record, needed = state.imports.runs.get(run), state.imports.needed_objects()
    is_aborted = record is not None and record.status == ABORTED
    gone: list[str] = []
    for entry in entries:
        if entry.key in needed:
            continue
        released_at = state.released.get(entry.key)
        if is_aborted or (
            entry.modified_at < written_before if released_at is None else released_at < horizon
        ):
            gone.append(entry.key)
    return gone


def _is_unknown(run: str, state: QueueState) -> bool:
    return run not in state.imports.runs and run not in state.imports.staged
