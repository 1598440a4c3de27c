"""Keys: each has an object that names the job that has it, or had it last. It is never deleted.

A job takes its key in three steps, each a conditional put, and the second is where it happens:

1. The task is put with an *opening*: the event that it wants to become true. As long as that is
   all, it is as it was.
2. The key's object is put, naming the opening's position, if the key is free. From now on the
   opening is true for everybody who looks, whether or not anybody does the rest.
3. The task is put with the event applied.

A key is held while the job that its object names is live by that very opening, and until a time, if
one is set. A key is let go by ending the job: nothing is written for it. Whoever dies between 1 and
2 leaves an opening that means nothing, and that the next enqueue of that id or the sweeper voids;
its position is kept, so that a put of step 2 that arrives after all names something void.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.engines.records.tasks.documents import Documents, Kept
from penstock.engines.records.tasks.names import KEYS, key_key
from penstock.engines.requests import Work
from penstock.kernel.commands import Adopt, Enqueue, Replay
from penstock.kernel.events import Enqueued, KeyCarried
from penstock.kernel.job import Job
from penstock.kernel.tenancy import Hold, Scope
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.task import KeyObject, Opening, Task, decode_key, encode_key


class Holders:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._documents: Documents[KeyObject] = Documents(store, services, encode_key, decode_key)

    async def read(self, tenant: str, scope: Scope) -> Kept[KeyObject] | None:
        return await self._documents.read(key_key(tenant, scope))

    async def all(self) -> AsyncIterator[KeyObject]:
        """Every key that was ever taken."""
        async for entry in self._store.list(KEYS):
            kept = await self._documents.read(entry.key)
            if kept is not None:
                yield kept.document

    async def take(
        self, before: Kept[KeyObject] | None, tenant: str, scope: Scope, task: Task
    ) -> bool:
        """Step 2: names the task's opening; False if somebody else was faster."""
        opening = task.opening
        assert opening is not None
        after = KeyObject(
            tenant,
            *scope,
            id=task.id,
            life=opening.life,
            opened=opening.position,
            until=until_of(opening, task.job),
        )
        put = await self._documents.put(key_key(tenant, scope), before, after)
        return put is not None

    async def carry(self, before: Kept[KeyObject] | None, event: KeyCarried) -> bool:
        """Names a holder that has ended elsewhere; False if somebody else was faster."""
        scope = (event.queue, event.type, event.key)
        after = KeyObject(
            event.tenant, *scope, id=event.id, life=event.life, opened=event.position,
            until=event.until,
        )  # fmt: skip
        return await self._documents.put(key_key(event.tenant, scope), before, after) is not None


def scope_of(task: Task) -> Scope | None:
    """The key that the task's opening is about."""
    subject = task.opening if isinstance(task.opening, Enqueued) else task.job
    if subject is None or subject.key is None:
        return None
    return (subject.queue, subject.type, subject.key)


def until_of(opening: Opening, job: Job | None) -> float | None:
    if isinstance(opening, Enqueued):
        return opening.key_until
    return job.key_until if job is not None else None


def is_named(task: Task, holder: KeyObject) -> bool:
    """Whether the task's opening has become true."""
    opening = task.opening
    return opening is not None and (holder.id, holder.opened) == (task.id, opening.position)


def hold_in(holder: KeyObject, task: Task | None) -> Hold | None:
    """The hold that a key's object says, as the holder's own task has it."""
    if task is not None and holder.opened in task.voided:
        return None
    return Hold(holder.id, holder.life, holder.until)


def scopes_wanted(work: Work, task: Task) -> list[Scope]:
    """The keys that the command may take: that of the job as it is, and that of a new one."""
    scopes: dict[Scope, None] = {}
    job = task.job
    if may_take_key(work) and job is not None and job.is_terminal and job.key is not None:
        scopes[job.queue, job.type, job.key] = None
    if isinstance(work, Enqueue | Adopt):
        [new] = work.jobs
        has_ended = isinstance(new, Job) and new.is_terminal
        if new.key is not None and not has_ended:
            scopes[new.queue, new.type, new.key] = None
    return list(scopes)


def may_take_key(work: Work) -> bool:
    return isinstance(work, Enqueue | Adopt | Replay)
