"""Readers with a name: vacuum waits for them."""

from __future__ import annotations

from penstock import wiring
from penstock.address import Address
from penstock.kernel.events import EVENTS_PER_COMMIT, position_of


async def register_consumer(address: Address, name: str, first: int) -> None:
    """By a commit, before the first read: from then on nothing from `first` on is vacuumed.

    A consumer that is known stays where it is. Advancing it is up to whoever has stored what
    was read, and can know when that is done.
    """
    async with wiring.open(address.url) as queue:
        await queue.move_consumer(name, reached_before(first))


def reached_before(commit: int) -> int:
    """The position of a reader that has taken everything before a commit."""
    return position_of(commit - 1, EVENTS_PER_COMMIT - 1)
