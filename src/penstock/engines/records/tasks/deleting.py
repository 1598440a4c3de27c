"""Deleting the objects of buried tasks, on stores that can't delete under a condition.

A delete removes whatever is there when it arrives. So it may only be sent where nothing else than
the buried task can be there by then, however long it takes:

1. A vacuum buries a task: a conditional put empties it and marks it as `buried`.
2. It announces the deletion in the charter, with what has to stay counted of each task.
3. It reads each task once more. Those that are still buried it deletes, by one request each that is
   never repeated, and none is sent later than `SENDING_SECONDS` after the announcement.
4. It puts the charter again: what was deleted is counted, and the deletion is over.

Whoever wants to use the id of a buried task *spares* it first, by a conditional put that leaves it
empty and makes it a task like any other, and then reads the charter. If no deletion is announced
that names the task, then any later one reads the task as spared in step 3, and leaves it. If one
is, then its delete may be under way: the charter is read until it is over. Only then is the id
used, in the spared object, or in a new one if that is gone. Where the object is gone already,
whoever creates it need not ask: the only delete that was ever sent has arrived.

One vacuum at a time has a deletion announced; others wait. If one dies in between, or does not hear
what became of a delete, then the deletion stands there until somebody has seen it for
`DELETION_SECONDS` by what elapses, not by a clock. By then every request has arrived or never will.
Whoever has waited looks at the tasks: what is gone, or is there anew, counts as deleted; what is
buried or spared has its counts itself. No state in between counts anything twice, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.turns import RETRY_SECONDS, RETRY_SECONDS_MAX, Turns
from penstock.errors import PutUnknown, StoreUnavailable
from penstock.kernel.events import Event
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.stores.layers.retrying import without_repeats
from penstock.wire.task import CharterObject, Deletion, Leaving, Task

SENDING_SECONDS: Final = 30.0
"""After that a vacuum sends no more deletes of a portion; they arrive within a store's timeout."""
NONCE_CHARACTERS: Final = 16

Found = tuple[str, Kept[Task]]
"""A task and its object's key."""


class Deleter:
    def __init__(
        self, store: ObjectStore, services: Services, turns: Turns, charter: CharterStore
    ) -> None:
        self._store = without_repeats(store)
        self._services = services
        self._turns = turns
        self._charter = charter

    async def delete(self, buried: Sequence[Found]) -> None:
        """Deletes those that are still buried; answers when their fate is known and counted."""
        deletion, began_at = await self._announce(buried)
        is_doubtful = False

        async def delete(key: str) -> bool:
            nonlocal is_doubtful
            kept = await self._turns.tasks.read(key)
            if kept is None or not kept.document.buried:
                # Somebody has spared it, or another vacuum was here before.
                return False
            if self._services.clock.elapsed() - began_at > SENDING_SECONDS:
                return False
            try:
                await self._store.delete(key)
            except (StoreUnavailable, PutUnknown):
                is_doubtful = True
                return False
            return True

        keys = list(deletion.tasks)
        are_deleted = await in_parallel(delete, keys)
        if is_doubtful:
            await self.finish()
            return
        gone = [key for key, is_deleted in zip(keys, are_deleted, strict=True) if is_deleted]
        await self._end(deletion, gone)

    async def finish(self) -> None:
        """Waits until the deletion that is announced, if any, is over, and counts what is gone."""
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            await self._charter.refresh()
            deletion = self._charter.object.deletion
            if deletion is None:
                return
            if self._charter.is_deletion_over:
                keys = list(deletion.tasks)
                are_gone = await in_parallel(self._is_gone, keys)
                gone = [key for key, is_gone in zip(keys, are_gone, strict=True) if is_gone]
                await self._end(deletion, gone)
            else:
                await self._services.clock.sleep(backoff.next_seconds())

    async def _announce(self, buried: Sequence[Found]) -> tuple[Deletion, float]:
        """The deletion, once the charter says so, and what had elapsed when it did not yet."""
        tasks = {key: Leaving(kept.document.tenant, kept.document.left) for key, kept in buried}
        while True:
            await self.finish()
            deletion = Deletion(self._services.new_secret()[:NONCE_CHARACTERS], tasks)
            began_at = self._services.clock.elapsed()
            await self._charter.change(partial(_announced, deletion))
            await self._charter.refresh()
            if self._charter.object.deletion == deletion:
                return deletion, began_at

    async def _is_gone(self, key: str) -> bool:
        kept = await self._turns.tasks.read(key)
        return kept is None or is_anew(kept.document)

    async def _end(self, deletion: Deletion, gone: Iterable[str]) -> None:
        def end(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            if found.deletion is None or found.deletion.id != deletion.id:
                return found, ()
            left = found.left
            for key in gone:
                left = _with_left(left, deletion.tasks[key])
            return replace(found, deletion=None, left=left), ()

        await self._charter.change(end)


def is_anew(task: Task) -> bool:
    """Whether the task is not the one that was buried under its key, nor what came of that."""
    return not task.buried and not task.spared


def _announced(deletion: Deletion, found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
    return (replace(found, deletion=deletion) if found.deletion is None else found), ()


def _with_left(left: dict[str, stories.Left], leaving: Leaving) -> dict[str, stories.Left]:
    counts = stories.with_left(left.get(leaving.tenant, {}), ())
    for queue, states in leaving.left.items():
        for state, number in states.items():
            numbers = counts.setdefault(queue, {})
            numbers[state] = numbers.get(state, 0) + number
    return {**left, leaving.tenant: counts}
