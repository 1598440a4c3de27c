"""A queue in Redis or Valkey, shared by processes on many machines.

A turn is two round trips. The first script finds what the turn asks for, gives it a number and
hides its candidates from other turns; the second compares what was found and writes. What has to be
known before asking, the head, is remembered from the turn before; if it has changed meanwhile the
engine is asked again, and only a new charter makes it look again. A turn that was not ended,
because its process died, is ended by the server's clock. See docs/adr/0008 for the protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.engines.records.capabilities import record_capabilities
from penstock.engines.records.redis import finding, packing
from penstock.engines.records.redis.connection import Connection
from penstock.engines.records.redis.ear import Ear
from penstock.engines.records.redis.finding import Finding
from penstock.engines.records.redis.keys import Keys, record_name
from penstock.engines.records.redis.known import Known
from penstock.engines.records.redis.objects import Objects
from penstock.engines.records.redis.reaching import AnyClient
from penstock.engines.records.redis.reading import Reader
from penstock.engines.records.redis.server import Durability, durability_of, require_fit
from penstock.engines.records.redis.writing import Writing, replaced
from penstock.errors import NewerFormat, PenstockError, StoreFull
from penstock.kernel.settings import DAY_SECONDS
from penstock.ports.backend import Capabilities
from penstock.ports.counters import Survey
from penstock.ports.listing import Page, PageAsked
from penstock.ports.records import (
    Ask,
    Change,
    Decide,
    Departure,
    Due,
    Head,
    KeyHold,
    Remembered,
    Wanted,
)
from penstock.ports.store import ObjectStore
from penstock.ports.wakes import Heard, Waiter, Wake
from penstock.runtime.services import Services
from penstock.stores.layers.retrying import Retrying

logger = logging.getLogger(__name__)

EVENTS_SECONDS: Final = DAY_SECONDS
"""How long events stay unless something else is configured: they lie in memory."""
EVENTS_BYTES_MAX: Final = 2 * 1024**3
EVENTS_WARNED_SHARE: Final = 0.8
"""What the events of a queue may take; beyond that the oldest go, whatever their age."""
TOKEN_CHARACTERS: Final = 12
"""Of what tells a turn from another one that would have its number."""
FORMAT: Final = 1
"""The level of names and bytes; see keys.py and packing.py."""


class RedisStore:
    def __init__(self, server: str | AnyClient, prefix: str, services: Services) -> None:
        self._keys = Keys(prefix)
        self._connect = partial(Connection, server, self._keys.root, services)
        self._connection = self._connect()
        self._reader = Reader(self._connection, self._keys)
        self._services = services
        self._writer = services.new_secret()
        self._ear = Ear(self._connection, self._keys, self._writer)
        self._durability: Durability = "relaxed"
        self._is_warned = False
        self._is_rehearsed = False
        """Whether the server lets us run everything that a write consists of."""
        self._known = Known()
        self._head: Head | None = None
        """As it was after the last turn."""
        objects = Objects(self._connection, self._keys, services)
        self.side: ObjectStore = Retrying(objects, services.clock, luck=services.luck)

    @property
    def capabilities(self) -> Capabilities:
        return record_capabilities(
            self._connection.name,
            push=True,
            # Alone it is strict; of several at once each passes over what another is about to take.
            order="approximate",
            batches_at_once=2,
            durability=self._durability,
            works_when_full=self._connection.works_when_full,
            log_retention_seconds=EVENTS_SECONDS,
        )

    @property
    def has_own_clock(self) -> bool:
        return True

    async def exists(self) -> bool:
        await self._connection.greet()
        return bool(await self._connection.ask("EXISTS", self._keys.format))

    async def open(self) -> None:
        try:
            await self._connection.greet()
            await require_fit(self._connection)
            await self._require_format()
            self._durability = await durability_of(self._connection)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._ear.close()
        await self._connection.close()

    async def drop(self) -> None:
        connection = self._connect()
        try:
            await connection.delete_all()
        finally:
            await connection.close()

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        if is_read:
            return decide((await self._look(ask)).found) is None
        found = await self._find(ask)
        try:
            change = decide(found.found)
            if change is None and found.assumed:
                # Nothing is compared where nothing is written.
                await self._release(found)
                found = await self._find(ask, assumes=False)
                change = decide(found.found)
        except BaseException:
            await self._release(found)
            raise
        if change is None:
            await self._release(found)
            return True
        return await self._write(found, change)

    async def head(self) -> Head:
        return finding.head_in(await self._connection.run("head"))

    async def listing(self, asked: PageAsked) -> Page:
        return await self._reader.listing(asked)

    async def survey(self, tenant: str, at: float) -> Survey:
        return await self._reader.survey(tenant, at)

    async def tenants(self) -> list[str]:
        return await self._reader.tenants()

    async def lapsing(self, tenant: str, after: float) -> list[KeyHold]:
        return await self._reader.lapsing(tenant, after)

    async def next_due(self, wanted: Wanted, waiter: Waiter | None = None) -> Due:
        return await self._reader.next_due(wanted, waiter, self._writer)

    async def wake(self, wakes: Sequence[Wake]) -> None:
        await self._reader.wake(wakes)

    async def departure(self, tenant: str, id: str, life: int | None) -> Departure | None:
        return await self._reader.departure(tenant, id, life)

    async def remembered(self, tenant: str, after: float) -> list[Remembered]:
        return await self._reader.remembered(tenant, after)

    async def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        return await self._reader.commits(after, count)

    async def commit(self, number: int) -> bytes | None:
        return await self._reader.commit(number)

    async def first_commit(self) -> int:
        return await self._reader.first_commit()

    async def sides(self) -> dict[str, float | None]:
        return await self._reader.sides()

    async def changed(self, timeout_seconds: float) -> Heard:
        return await self._ear.wait(timeout_seconds)

    async def vacuum(self, written_before: float, below: int, released_before: float) -> int:
        return await self._reader.vacuum(written_before, below, released_before)

    async def _require_format(self) -> None:
        found = await self._connection.ask("GET", self._keys.format)
        if found is None:
            # Only where there is no queue yet: to open one that is there takes no right to write.
            await self._connection.ask("SETNX", self._keys.format, FORMAT)
            found = await self._connection.ask("GET", self._keys.format)
        level = int(found)
        if level > FORMAT:
            raise NewerFormat(self._connection.name, level, FORMAT)

    async def _look(self, ask: Ask) -> Finding:
        return await self._find(ask, only_looks=True, assumes=False)

    async def _find(self, ask: Ask, *, only_looks: bool = False, assumes: bool = True) -> Finding:
        """`assumes`: whether what is known of running records will do."""
        head = self._head or await self.head()
        while True:
            token = self._services.new_secret()[:TOKEN_CHARACTERS]
            need = ask(head)
            known = self._known.take(need.ids) if assumes else {}
            asked = finding.asked(need, token, known, only_looks=only_looks)
            answer = await self._connection.run("find", asked)
            found = finding.finding_in(answer, token, need, known)
            before, head = head, found.head
            self._head = head
            if head.charter_version == before.charter_version:
                if head != before:
                    # Others were here. Times and counts go by now; what to look for is the same.
                    ask(head)
                return found
            await self._release(found)

    async def _release(self, found: Finding) -> None:
        if found.turn:
            await self._connection.run("release", found.turn, found.found.commit)

    async def _write(self, found: Finding, change: Change) -> bool:
        located = await self._located(found, change)
        if located is None:
            await self._release(found)
            return False
        if not self._is_rehearsed:
            try:
                await self._connection.run("rehearse")
            except PenstockError:
                await self._release(found)
                raise
            self._is_rehearsed = True
        arguments = Writing(self._keys, found, change, located, EVENTS_BYTES_MAX).arguments(
            self._writer
        )
        adds = any(put.found is None for put in change.puts)
        run = self._connection.run_until_answered
        try:
            is_written, events_bytes = await run("write", *arguments, adds=adds)
        except StoreFull:
            await self._release(found)
            # Now nothing can come of it any more; an earlier try may have, whose answer was lost.
            is_written, events_bytes = await run("write", *arguments, adds=False)
            if not is_written:
                raise
        if is_written:
            self._head = _after(found.head, change)
            self._known.note(change)
            self._warn_of_events(events_bytes)
        return bool(is_written)

    def _warn_of_events(self, events_bytes: int) -> None:
        """Before the oldest go although they are not old enough."""
        if events_bytes < EVENTS_WARNED_SHARE * EVENTS_BYTES_MAX:
            self._is_warned = False
        elif not self._is_warned:
            self._is_warned = True
            logger.warning(
                "%s: the events take %d MiB, of at most %d; the oldest will go before their time, "
                "and readers that have not read them get Gap",
                self._connection.name, events_bytes >> 20, EVENTS_BYTES_MAX >> 20,
            )  # fmt: skip

    async def _located(self, found: Finding, change: Change) -> dict[int, packing.Located] | None:
        """Where what is replaced is indexed; None if something is not as it is taken to be.

        A change may replace what its turn did not look at.
        """
        located = found.located
        for record, version in replaced(change):
            at = located.get(record.life)
            if at is None:
                name = record_name(record.tenant, record.id)
                value = await self._connection.ask("GET", self._keys.job(name))
                if value is None:
                    return None
                stored, at = packing.stored_in(value)
                if stored.life != record.life:
                    return None
                located = {**located, record.life: at}
            if at.version != version:
                return None
        return located


def _after(head: Head, change: Change) -> Head:
    """The head that a change has left, unless others were there too."""
    charter = (head.charter, head.charter_version)
    if change.charter is not None:
        charter = (change.charter, change.commit)
    return Head(
        max(head.commit, change.commit),
        max(head.at, change.at),
        head.completed + change.completed,
        *charter,
        readable=change.commit,
        clock=change.clock if change.at >= head.at else head.clock,
    )
