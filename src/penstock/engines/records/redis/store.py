"""A queue in Redis or Valkey, shared by processes on many machines.

A turn is two round trips. The first script finds what the turn asks for, gives it a number and
hides its candidates from other turns; the second compares what was found and writes. What has to be
known before asking, the head, is remembered from the turn before; if it has changed meanwhile the
engine is asked again, and only a new charter makes it look again. A turn that was not ended,
because its process died, is ended by the server's clock. See docs/adr/0008 for the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Final

from penstock.engines.records.capabilities import record_capabilities
from penstock.engines.records.redis import finding, packing
from penstock.engines.records.redis.connection import AnyClient, Connection
from penstock.engines.records.redis.ear import Ear
from penstock.engines.records.redis.finding import Finding
from penstock.engines.records.redis.keys import Keys
from penstock.engines.records.redis.objects import Objects
from penstock.engines.records.redis.reading import Reader
from penstock.engines.records.redis.server import Durability, durability_of, require_fit
from penstock.engines.records.redis.writing import Writing, replaced
from penstock.errors import NewerFormat
from penstock.ports.backend import Capabilities
from penstock.ports.counters import Survey
from penstock.ports.records import (
    Ask,
    Change,
    Decide,
    Departure,
    Due,
    Head,
    KeyHold,
    Remembered,
    Shelf,
    Wanted,
)
from penstock.ports.store import ObjectStore
from penstock.ports.wakes import Heard, Waiter, Wake
from penstock.runtime.services import Services
from penstock.stores.layers.retrying import Retrying

FORMAT: Final = 1
"""The level of names and bytes; see keys.py and packing.py."""


class RedisStore:
    def __init__(self, server: str | AnyClient, prefix: str, services: Services) -> None:
        self._keys = Keys(prefix)
        self._connect = partial(Connection, server, self._keys.root, services)
        self._connection = self._connect()
        self._reader = Reader(self._connection, self._keys)
        self._writer = services.new_secret()
        self._turns = count()
        self._ear = Ear(self._connection, self._keys, self._writer)
        self._durability: Durability = "relaxed"
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
            return decide((await self._find(ask, only_looks=True)).found) is None
        found = await self._find(ask, only_looks=False)
        try:
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

    async def listing(
        self, tenant: str, shelves: Sequence[Shelf], queue: str | None, type: str | None
    ) -> list[bytes]:
        return await self._reader.listing(tenant, shelves, queue, type)

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

    async def _find(self, ask: Ask, *, only_looks: bool) -> Finding:
        head = self._head or await self.head()
        while True:
            token = f"{self._writer}.{next(self._turns)}"
            need = ask(head)
            asked = finding.asked(need, token, only_looks=only_looks)
            found = finding.finding_in(await self._connection.run("find", asked), token, need)
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
        arguments = Writing(self._keys, found, change, located).arguments(self._writer)
        is_written = bool(await self._connection.run_until_answered("write", *arguments))
        if is_written:
            self._head = _after(found.head, change)
        return is_written

    async def _located(self, found: Finding, change: Change) -> dict[int, packing.Located] | None:
        """Where what is replaced is indexed; None if something is not as it is taken to be.

        A change may replace what its turn did not look at.
        """
        located = dict(found.located)
        for name, life, version in replaced(change):
            if life not in located:
                value = await self._connection.ask("GET", self._keys.job(name))
                if value is None:
                    return None
                stored, located[life] = packing.stored_in(value)
                if stored.life != life:
                    return None
            if located[life].version != version:
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
