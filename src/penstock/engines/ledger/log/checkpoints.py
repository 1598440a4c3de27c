"""Writing checkpoints beside the commits, without stopping them.

Jobs are values, so a list of them is a picture that holds still while commits go on; the encoding
is done in slices in a thread. Create-only: whoever is first at a commit's checkpoint wins, and
since the form is canonical it does not matter who that is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from msgspec import Struct

from penstock.engines.ledger.journal import Head
from penstock.engines.ledger.names import checkpoint_key
from penstock.errors import PreconditionFailed, StoreError
from penstock.kernel.job import Job
from penstock.kernel.state import QueueState
from penstock.ports.store import Create, ObjectStore
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet, within
from penstock.wire.snapshot import (
    Overview,
    all_jobs,
    canonical,
    encode_checkpoint,
    job_slices,
    overview,
)

logger = logging.getLogger(__name__)

CLOSING_SECONDS_MAX: Final = 30.0
"""How long closing waits for a checkpoint; without it nothing is lost."""


class Stored(Struct, frozen=True):
    commit: int
    size_bytes: int


class Checkpointer:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self.newly_stored: Stored | None = None
        """What the next commit should tell the others."""
        self._store = store
        self._tasks = TaskSet("checkpoints")
        self._clock = services.clock
        self._is_busy = False

    def begin(self, state: QueueState, head: Head) -> None:
        """Takes the picture now and writes it in the background; one at a time."""
        if not self._is_busy:
            self._is_busy = True
            jobs, parts = all_jobs(state), overview(state)
            self._tasks.start(f"checkpoint {head.commit}", self._write(jobs, parts, head))

    async def finish(self) -> None:
        """Ends what it has begun: a queue that only short-lived processes write has nobody else."""
        if self._is_busy:
            await within(CLOSING_SECONDS_MAX, self._clock, self._tasks.finished())
        await self._tasks.stop()

    async def _write(self, jobs: list[Job], parts: Overview, head: Head) -> None:
        try:
            data = await asyncio.to_thread(_encode, jobs, parts, head)
            self.newly_stored = await write_checkpoint(self._store, head.commit, data)
        except StoreError as error:
            # Nothing is lost without it; the tail's next multiple elects somebody again.
            logger.warning("checkpoint %d was not written: %s", head.commit, error)
        except Exception:
            logger.exception("checkpoint %d was not written", head.commit)
        finally:
            self._is_busy = False


async def write_checkpoint(store: ObjectStore, commit: int, data: bytes) -> Stored:
    # Refused: it is there already, ours by a lost answer or somebody's equal one.
    with contextlib.suppress(PreconditionFailed):
        await store.put(checkpoint_key(commit), data, Create())
    return Stored(commit, len(data))


def _encode(jobs: list[Job], parts: Overview, head: Head) -> bytes:
    ordered = canonical(jobs)
    body = b"".join(job_slices(ordered))
    return encode_checkpoint(
        parts,
        len(ordered),
        body,
        commit=head.commit,
        chain=head.chain,
        at=head.at,
        clock=head.stamp.lagging_clock,
    )
