"""The history of a job out of the old versions of its object, where the bucket keeps them.

Each version has the events until then, as far as they were kept, so all of them together have all.
It also works for an object that was deleted.
"""

from __future__ import annotations

from penstock.engines.histories import history_of
from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.names import task_key, task_name
from penstock.kernel.events import JobEvent
from penstock.ports.store import ObjectVersion, Versioned
from penstock.wire.task import decode_task


async def history_in_versions(
    store: Versioned, tenant: str, id: str, life: int | None
) -> list[JobEvent]:
    key = task_key(task_name(tenant, id))
    versions = [version async for version in store.versions(key) if not version.deleted]

    async def events_in(version: ObjectVersion) -> tuple[JobEvent, ...]:
        stored = await store.get_version(key, version.version_id)
        return decode_task(key, stored.data).events

    found = await in_parallel(events_in, versions)
    by_position = {event.position: event for events in found for event in events}
    events = [by_position[position] for position in sorted(by_position)]
    return history_of(events, tenant, id, life)
