"""Jobs that a clock which was ahead has written to: their time goes on, and they are found.

Each job has a time of its own, which goes by `kernel/stamps`; where time and clock differ its task
keeps both. The indexes go by the clock: an entry is filed under when the clock will be there. But
one that was filed by a clock that was a day ahead lies in the next day, and nobody has noted since
what the clock was when it came back. Its position gives it away, since positions are times. Whoever
comes upon such an entry reads the task, notes the clock in it, so that the job's time goes on from
there, and files its entry anew.

Claims and expiries come upon them where an index is small enough to be read whole. In a larger one
they are found by the sweeper.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from penstock.engines.calibration import CommitClock, warn_of_time
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.documents import Documents, Kept, in_parallel
from penstock.engines.records.tasks.index import Index, entry_of, is_of, is_stale
from penstock.engines.records.tasks.names import Leased, Ready, task_key
from penstock.engines.records.tasks.positions import time_of
from penstock.errors import Corrupt
from penstock.kernel.stamps import AHEAD_SECONDS_MAX, SET_BACK_SECONDS, Stamp, next_stamp
from penstock.wire.task import Task

logger = logging.getLogger(__name__)

MET_AT_ONCE_MAX: Final = 64
"""How many entries are filed anew with one look; the next one goes on."""
MET_MAX: Final = 10_000
"""How many entries are remembered that were found to be right."""


class Ahead:
    def __init__(self, name: str, tasks: Documents[Task], index: Index, clock: CommitClock) -> None:
        """`name` is the store's, for the warning."""
        self._name = name
        self._tasks = tasks
        self._index = index
        self._clock = clock
        self._met: set[str] = set()
        self._has_warned = False

    async def file_anew(self, entries: Iterable[Ready | Leased]) -> list[Ready | Leased]:
        """Of these, what a clock that was ahead has filed where nobody looks; as it is now."""
        now = self._clock.now()
        suspects = [
            entry
            for entry in entries
            if time_of(entry.position) > now + SET_BACK_SECONDS
            and _filed_under(entry) > now
            and entry.key not in self._met
        ]
        if not suspects:
            return []
        some = sorted(suspects, key=_filed_under)[:MET_AT_ONCE_MAX]
        return [entry for entry in await in_parallel(self._meet, some) if entry is not None]

    async def catch_up(self, key: str, kept: Kept[Task]) -> Kept[Task] | None:
        """The task with a time that goes on; None if somebody else was faster."""
        task, now = kept.document, self._clock.now()
        before = stories.stamp_in(task)
        is_behind = now <= before.clock - SET_BACK_SECONDS
        if not is_behind or task.opening is not None or kept.version is None:
            return kept
        stamp = next_stamp(before, now)
        self.warn(task, stamp)
        after = stories.timed(task, kept.modified_at, stamp)
        if after.job is not None:
            await self._index.announce(after.job, after.early_seconds)
        # If that is refused, the entry stays: it may be what the other one has put, too.
        return await self._tasks.put(key, kept, after)

    def warn_at_opening(self, stamp: Stamp) -> None:
        self._warn(self._name, stamp)

    def warn(self, task: Task, stamp: Stamp) -> None:
        """Of a job that is too little ahead for the charter to tell."""
        self._warn(f"{self._name}, job {task.id}, and perhaps others", stamp)

    def _warn(self, whose: str, stamp: Stamp) -> None:
        """Once."""
        if not self._has_warned and stamp.ahead_seconds > AHEAD_SECONDS_MAX:
            self._has_warned = True
            warn_of_time(whose, stamp)

    async def _meet(self, entry: Ready | Leased) -> Ready | Leased | None:
        key = task_key(entry.name)
        try:
            found = await self._tasks.read(key)
        except Corrupt as error:
            logger.warning("the entry of a job is left alone: %s", error)
            return None
        kept = None if found is None else await self.catch_up(key, found)
        if kept is None:
            return None
        task = kept.document
        if is_stale(entry, task):
            self._index.forget([entry])
            return None
        if task.job is None or not is_of(entry, task):
            # It announces what may yet come.
            return None
        early = stories.early_seconds(task.job, stories.stamp_in(task))
        right = entry_of(task.job, early)
        if right is None or right.key == entry.key:
            self._remember(entry)
            return right
        await self._index.announce(task.job, early)
        self._index.forget([entry])
        return right

    def _remember(self, entry: Ready | Leased) -> None:
        if len(self._met) >= MET_MAX:
            self._met.clear()
        self._met.add(entry.key)


def _filed_under(entry: Ready | Leased) -> float:
    return entry.due_at if isinstance(entry, Ready) else entry.until
