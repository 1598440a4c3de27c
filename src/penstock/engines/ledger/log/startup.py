"""From stored objects to a live state: the newest good checkpoint, then the tail in parallel."""

from __future__ import annotations

import logging
from typing import Final

from msgspec import Struct

from penstock.engines.ledger.journal import Head
from penstock.engines.ledger.log.floor import FIRST_SLOT, read_floor
from penstock.engines.ledger.log.reader import LogReader
from penstock.engines.ledger.log.tail import Tail
from penstock.engines.ledger.names import CHECKPOINTS, commit_in
from penstock.errors import Corrupt, ObjectNotFound
from penstock.kernel.stamps import THE_BEGINNING
from penstock.kernel.state import QueueState
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.commit import CHAIN_START
from penstock.wire.snapshot import CheckpointHead, decode_checkpoint, restore

logger = logging.getLogger(__name__)

LOADS_MAX: Final = 10
"""Vacuum may raise the floor while we load; then we begin again, but not for ever."""


class Loaded(Struct, frozen=True):
    state: QueueState
    head: Head
    tail: Tail


async def load(store: ObjectStore, reader: LogReader, services: Services) -> Loaded:
    """The state as of some checkpoint, or of the beginning: a point from which to catch up."""
    backoff = services.backoff(0.05, 1.0)
    for _ in range(LOADS_MAX):
        floor = await read_floor(store)
        loaded = await newest_checkpoint(store, floor)
        if loaded is not None:
            return loaded
        if floor == FIRST_SLOT:
            return Loaded(QueueState(), Head(0, THE_BEGINNING, CHAIN_START), Tail())
        await services.clock.sleep(backoff.next_seconds())
    raise Corrupt(
        CHECKPOINTS, f"the log begins at commit {floor} and no good checkpoint reaches it"
    )


async def checkpoints(store: ObjectStore) -> list[tuple[int, str]]:
    """The stored checkpoints, newest first."""
    found = [(commit_in(entry.key), entry.key) async for entry in store.list(CHECKPOINTS)]
    return sorted(((commit, key) for commit, key in found if commit is not None), reverse=True)


async def newest_checkpoint(
    store: ObjectStore, floor: int, up_to: int | None = None
) -> Loaded | None:
    """The newest good one that the log continues; `up_to` a commit, to look back in time."""
    for commit, key in await checkpoints(store):
        if commit < floor - 1:
            return None
        if up_to is not None and commit > up_to:
            continue
        try:
            data = (await store.get(key)).data
            head, jobs = decode_checkpoint(key, data)
            _require_commit(head, commit, key)
        except (Corrupt, ObjectNotFound) as error:
            logger.warning("skipped a checkpoint: %s", error)
            continue
        state = restore(head.overview, jobs, head.at)
        # It names the checkpoint before it; this one is at hand, so the tail counts from here.
        return Loaded(state, Head(commit, head.stamp, head.chain), Tail())
    return None


def _require_commit(head: CheckpointHead, commit: int, key: str) -> None:
    if head.commit != commit:
        raise Corrupt(key, f"it says that it is of commit {head.commit}")
