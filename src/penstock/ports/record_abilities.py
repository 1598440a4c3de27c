"""What some stores of records can do besides."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from penstock.ports.records import Ask, Decide


@runtime_checkable
class TransactionalStore(Protocol):
    """A store whose turns can be part of a transaction that somebody else has begun."""

    async def turn_within(self, connection: Any, ask: Ask, decide: Decide) -> bool:
        """A turn on a connection of the caller's, which stands if that transaction does.

        False: nothing was written, ask again; that transaction is as it was before. As long as it
        lasts no charter is written that closes something (`Change.charter_closes`), but no other
        turn must wait for what it only looked at: it reserves nothing.
        """
        ...


@runtime_checkable
class Droppable(Protocol):
    """A store that can be made for a moment beside others, as a benchmark does."""

    async def drop(self) -> None:
        """Deletes the queue with everything in it; to be called when it is closed."""
        ...
