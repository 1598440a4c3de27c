"""The lives that an id has had, as far as the events still tell of them."""

from __future__ import annotations

from msgspec import Struct

from penstock.client.queue import Queue
from penstock.kernel.events import Enqueued, JobFact


class Life(Struct):
    life: int
    """What `history` takes to tell it from the others of that id."""
    began_at: float
    last_event: str


async def find_lives(queue: Queue, id: str) -> dict[int, Life]:
    """By their numbers, oldest first. The live state knows only the latest, so this reads every
    event that has not been vacuumed.
    """
    found: dict[int, Life] = {}
    async for event in queue.events("beginning", follow=False):
        if not isinstance(event, JobFact) or event.id != id:
            continue
        if isinstance(event, Enqueued):
            found[event.life] = Life(event.life, event.at, event.event)
        elif event.life in found:
            found[event.life].last_event = event.event
    return found
