"""Reading commits on and on: every one after a position, or `Gap`, never a silent skip.

Two things can go wrong behind a reader's back. Vacuum deletes what it has yet to read; and a server
that was restored from an older state, or failed over to a copy that lagged, has lost commits that
it has read, and goes on from there. So every page begins with the last commit that was read, in the
same look: while it is there, and the same one, nothing between it and the next is missing. Where it
is not, the first commit, read after the page, says whether vacuum took no more than that one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import inf
from typing import Final

from penstock.engines.listeners import Listeners
from penstock.errors import Gap, QueueClosed
from penstock.kernel.events import EVENTS_PER_COMMIT, Event, commit_of, position_of
from penstock.ports.records import RecordStore
from penstock.runtime.services import Services
from penstock.wire.commit import decode_commit, decode_header

COMMITS_PER_READ: Final = 16
RETRY_SECONDS: Final = 0.002
RETRY_SECONDS_MAX: Final = 0.25
"""How often it is looked whether a turn that is under way has ended, or one that lost against
another is taken again."""


class CommitReader:
    """One reading; `reached` is the newest commit that was read, or the one before the first."""

    def __init__(self, store: RecordStore, since: int) -> None:
        self._store = store
        self._since = since
        self.reached = 0
        self._id: str | None = None
        """Of the commit that was reached, once one was read."""

    async def begin(self) -> None:
        """Raises `Gap` if what comes after the position is there no more, or never was there."""
        commit = commit_of(self._since)
        is_known = self._since == 0 or await self._store.commit(commit) is not None
        # Afterwards: nothing that was found is missing before it.
        first = await self._store.first_commit()
        if self._since > 0:
            if self._since < position_of(first, 0) - 1:
                raise Gap(self._since, first)
            if commit >= first and not is_known:
                raise Gap(self._since, first, is_lost=True)
        self.reached = max(commit, first) - 1

    async def read_on(self) -> list[tuple[int, list[Event]]]:
        """The next commits, each with its events; none if there are no more yet."""
        if self._id is None:
            page = await self._store.commits(self.reached, COMMITS_PER_READ)
            await self._require_next(page)
        else:
            page = await self._store.commits(self.reached - 1, COMMITS_PER_READ + 1)
            if page and page[0][0] == self.reached and _id_of(*page[0]) == self._id:
                del page[0]
            elif page or not await self._is_reached_there():
                await self._require_gone()
        if page:
            self.reached, data = page[-1]
            self._id = _id_of(self.reached, data)
        return [(number, decode_commit(f"commit {number}", data).events) for number, data in page]

    async def _require_next(self, page: list[tuple[int, bytes]]) -> None:
        if self.reached and (not page or page[0][0] != self.reached + 1):
            first = await self._store.first_commit()
            if self.reached + 1 < first:
                raise self._gap(first)

    async def _is_reached_there(self) -> bool:
        """For a moment less may be readable than was: a turn that has begun says from which number
        on its own may be, and others were given and read since it looked at that."""
        data = await self._store.commit(self.reached)
        return data is not None and _id_of(self.reached, data) == self._id

    async def _require_gone(self) -> None:
        """Vacuum took the commit that was reached, and nothing after it."""
        first = await self._store.first_commit()
        if self.reached + 1 != first:
            raise self._gap(first)
        self._id = None

    def _gap(self, first: int) -> Gap:
        position = position_of(self.reached, EVENTS_PER_COMMIT - 1)
        return Gap(position, first, is_lost=self.reached >= first)


async def read_events(
    store: RecordStore,
    services: Services,
    listeners: Listeners,
    tenant: str | None,
    since: int,
    *,
    follow: bool,
) -> AsyncIterator[Event]:
    """Those of a tenant or of all after a position; on and on, or those that are there now."""
    reader = CommitReader(store, since)
    await reader.begin()
    last = inf if follow else await settled_commit(store, services)
    while reader.reached < last:
        news = listeners.commits.next()
        page = await reader.read_on()
        for number, events in page:
            if number > last:
                return
            for event in events:
                if event.position > since and tenant in (None, event.tenant):
                    yield event
        if page:
            continue
        if not follow:
            return
        if not listeners.is_closed:
            await news
        if listeners.is_closed:
            raise QueueClosed


async def settled_commit(store: RecordStore, services: Services) -> int:
    """The newest commit as of the call, once it and all before it can be read."""
    head = await store.head()
    newest, backoff = head.commit, services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
    while head.readable < newest:
        await services.clock.sleep(backoff.next_seconds())
        head = await store.head()
        # Nobody waits for what a server has lost.
        newest = min(newest, head.commit)
    return newest


def _id_of(number: int, data: bytes) -> str:
    return decode_header(f"commit {number}", data).commit_id
