"""Tracebacks of layout `single`: beside `queue.json`, an object for each commit that has any.

`queue.json` is written anew by every commit and held by everybody who has the queue open, so a
traceback, which few will ever ask for, does not stand there: its event says `STORED_BESIDE`
instead. The events with theirs are put before the commit, under its number and id. If the commit
is lost, nothing refers to what was put; another's of the same number has other events in it.

Vacuum deletes what is older than the retention. The event still says what it said, and where
nothing is found for it, that means that its traceback is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.histories import PARALLEL_READS
from penstock.engines.ledger.names import TRACEBACKS, traceback_key, traceback_prefix
from penstock.errors import Corrupt, ObjectNotFound
from penstock.kernel.events import STORED_BESIDE, Event, Fact, Failed, Retried, commit_of
from penstock.ports.store import ObjectStore, Overwrite
from penstock.wire.commit import CHAIN_START, decode_commit, encode_commit

logger = logging.getLogger(__name__)

AnyEvent = TypeVar("AnyEvent", bound=Fact)
_Identity: TypeAlias = tuple[int, str, str, int]


class Tracebacks:
    def __init__(self, store: ObjectStore, writer: str) -> None:
        self._store = store
        self._writer = writer

    async def put_aside(
        self, events: Sequence[Event], commit: int, commit_id: str, at: float
    ) -> Sequence[Event]:
        """Stores the tracebacks of a commit to be; answers its events without them."""
        failures = [event for event in events if isinstance(event, Retried | Failed)]
        telling = [event for event in failures if event.traceback]
        if not telling:
            return events
        data, _ = encode_commit(
            telling,
            commit=commit,
            commit_id=commit_id,
            writer=self._writer,
            at=at,
            previous=CHAIN_START,
        )
        await self._store.put(traceback_key(commit, commit_id), data, Overwrite())
        return [_without(event) for event in events]

    async def fill_in(self, events: Sequence[AnyEvent]) -> list[AnyEvent]:
        """The events with their tracebacks, as far as these are still there."""
        filled = list(events)
        places = [place for place, event in enumerate(filled) if _lacks(event)]
        commits = sorted({commit_of(filled[place].position) for place in places})
        told: dict[_Identity, str] = {}
        for start in range(0, len(commits), PARALLEL_READS):
            some = commits[start : start + PARALLEL_READS]
            for found in await asyncio.gather(*map(self._read, some)):
                told |= found
        for place in places:
            event = filled[place]
            text = told.get(_identity(event))
            if text is not None:
                filled[place] = replace(event, traceback=text)
        return filled

    async def vacuum(self, written_before: float) -> int:
        """Deletes those that are older; says how many objects."""
        old = [
            entry.key
            async for entry in self._store.list(TRACEBACKS)
            if entry.modified_at < written_before
        ]
        for key in old:
            await self._store.delete(key)
        return len(old)

    async def _read(self, commit: int) -> dict[_Identity, str]:
        """What all who tried to be this commit have put."""
        keys = [entry.key async for entry in self._store.list(traceback_prefix(commit))]
        events = [event for key in keys for event in await self._events(key)]
        return {
            _identity(event): event.traceback
            for event in events
            if isinstance(event, Retried | Failed) and event.traceback
        }

    async def _events(self, key: str) -> list[Event]:
        async def read() -> list[Event]:
            return decode_commit(key, (await self._store.get(key)).data).events

        try:
            return await again_if_bad(read)
        except ObjectNotFound:
            return []  # vacuumed since it was listed
        except Corrupt as error:
            # It is of use to people alone: what happened is told without it.
            logger.warning("a traceback can't be shown: %s", error)
            return []


def _lacks(event: Fact) -> bool:
    return isinstance(event, Retried | Failed) and event.traceback == STORED_BESIDE


def _without(event: Event) -> Event:
    if isinstance(event, Retried | Failed) and event.traceback:
        return replace(event, traceback=STORED_BESIDE)
    return event


def _identity(event: Any) -> _Identity:
    """An attempt, and where it ended: others may have put something for the same commit."""
    return event.position, event.tenant, event.id, event.attempt
