"""Every event of every job, out of all the tasks: ordered per job, and nothing is ever skipped.

There is no log to follow. A round lists the tasks, reads those that changed, and tells their events
that it has not told yet, by position; the next round waits for news or for a while. Within one
reading nothing is told twice, because what was told of each task is known.

A reading that goes on from a position knows only that. An event with a lower position may have been
stored after the position was told: its put took longer than that of the other. So what may have
been stored since is told again, which is what happened in the last few seconds before, and whatever
is known to have been stored late. A reader who minds tells by tenant, id and position what it has
had. A position from the future was given by a clock that was ahead, and says even less: then all is
told again that was stored since that clock was set back (`charter`).

A reader who has not looked for so long that vacuum may have let something go meanwhile gets `Gap`,
also in the middle of a reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.looking import Stamp, read_all, stamp_of
from penstock.engines.records.tasks.names import TASKS, name_in, tenant_prefix
from penstock.engines.records.tasks.positions import time_of
from penstock.engines.records.tasks.stories import LATE_SECONDS
from penstock.engines.records.tasks.turns import Turns
from penstock.errors import Gap
from penstock.kernel.events import Event, commit_of
from penstock.ports.store import Entry, ObjectStore
from penstock.runtime.services import Services
from penstock.wire.task import CharterObject, Task

SETTLED_SECONDS: Final = 5.0
"""An object that was older than this when it was read is known by its time and size."""
TASKS_PER_READ: Final = 500
STAMP_SECONDS: Final = 1.0
"""Some stores stamp whole seconds."""


class Follower:
    """One reading, since a position; `is_now` if that is now, so that what is there is known."""

    def __init__(
        self,
        store: ObjectStore,
        turns: Turns,
        charter: CharterStore,
        services: Services,
        tenant: str | None,
        since: int,
        *,
        is_now: bool,
    ) -> None:
        self._store = store
        self._turns = turns
        self._charter = charter
        self._services = services
        self._tenant = tenant
        self._since = since
        self._begun_at = self._forgotten = 0.0
        """When the last round began, by what has elapsed, and what vacuum had let go by then."""
        self._is_now = is_now
        self._is_first = True
        self._told: dict[str, int] = {}
        """By task, the highest position that was told or need not be."""
        self._known: dict[str, Stamp] = {}

    async def round(self) -> list[Event]:
        """What was not told yet, of the tasks as they are."""
        await self._charter.refresh()
        self._require_all()
        events = list(self._of_charter(self._charter.object))
        changed: list[Entry] = []
        prefix = "" if self._tenant is None else tenant_prefix(self._tenant)
        async for entry in self._store.list(TASKS):
            is_known = self._known.get(entry.key) == stamp_of(entry)
            if not is_known and name_in(entry.key).startswith(prefix):
                changed.append(entry)
        for start in range(0, len(changed), TASKS_PER_READ):
            listed_at = self._services.clock.now()
            some = changed[start : start + TASKS_PER_READ]
            for entry, kept in await read_all(self._turns, some, only_looks=True):
                events += self._of_task(entry.key, kept.document, kept.modified_at)
                if kept.modified_at < listed_at - SETTLED_SECONDS:
                    self._known[entry.key] = stamp_of(entry)
        self._is_first = False
        return sorted(events, key=lambda event: event.position)

    def _require_all(self) -> None:
        """Raises `Gap` if vacuum may have let something go that was not told."""
        begun_at, forgotten = self._services.clock.elapsed(), self._charter.object.forgotten
        if self._is_first:
            self._since = self._charter.told_by(self._since)
            is_gone = 0 < self._since < forgotten
        else:
            # What is let go has been there for the whole retention. No clock is asked.
            retention_seconds = self._charter.current.settings.retention_seconds()
            is_long_ago = begun_at - self._begun_at > retention_seconds / 2
            is_gone = is_long_ago and forgotten > self._forgotten
        if is_gone:
            raise Gap(max([self._since, *self._told.values()]), commit_of(forgotten))
        self._begun_at, self._forgotten = begun_at, forgotten

    def _of_task(self, key: str, task: Task, modified_at: float) -> Iterator[Event]:
        told = self._told.get(key, 0)
        for event in task.events:
            if event.position > told and (
                # A task that was not there at first is all news, wherever its events stand.
                not self._is_first
                or event.position > self._since
                or (not self._is_now and _may_be_news(task, event, modified_at, self._since))
            ):
                yield event
        if task.events:
            self._told[key] = task.events[-1].position

    def _of_charter(self, charter: CharterObject) -> Iterator[Event]:
        told = self._told.get("", self._since)
        for event in charter.events:
            if event.position > told and self._tenant in (None, event.tenant):
                yield event
        if charter.events:
            self._told[""] = charter.events[-1].position


def _may_be_news(task: Task, event: Event, modified_at: float, since: int) -> bool:
    """Whether it may have been stored after `since` was told, which stands higher."""
    stored_by = event.at + LATE_SECONDS
    if not task.quiet and event is task.events[-1]:
        stored_by = max(stored_by, modified_at + STAMP_SECONDS)
    for position, at in task.late:
        if event.position <= position:
            stored_by = max(stored_by, at + STAMP_SECONDS)
            break
    return time_of(since) < stored_by
