"""`penstock.json`: what makes a folder or bucket prefix a queue. Written once, read at every open.

Before it is written the store is put to the test: of many concurrent creates of one key exactly
one may win. Several S3-alikes have failed that, and a queue on them would lose jobs.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Struct

from penstock.engines.ledger.names import LOG, MARKER, QUEUE
from penstock.engines.names import PROBES
from penstock.engines.room import keep_reserve
from penstock.errors import (
    Corrupt,
    InvalidURL,
    ObjectNotFound,
    PreconditionFailed,
    PutUnknown,
    StoreUnfit,
)
from penstock.ports.store import Create, ObjectStore, PutMode
from penstock.runtime.services import Services
from penstock.wire.level import UNMOVED_LEVEL, UNREADABLE, require_known

LAYOUTS: Final = ("log", "single", "tasks")
"""The first is the default."""

_CONTENTS: Final = {"single": QUEUE, "tasks": "tasks/", "log": LOG}
"""What a queue of each layout can't be without, once it has a job."""

PROBE_WRITERS: Final = 8
_TRIES_MAX: Final = 20


class Marker(Struct, frozen=True):
    format: int
    layout: str
    nonce: str


class _Level(Struct, frozen=True):
    format: int


async def read_marker(store: ObjectStore) -> Marker | None:
    try:
        stored = await store.get(MARKER)
    except ObjectNotFound:
        return None
    try:
        # A newer one may have other fields, but it has this one.
        require_known(MARKER, msgspec.json.decode(stored.data, type=_Level).format)
        return msgspec.json.decode(stored.data, type=Marker)
    except UNREADABLE as error:
        raise Corrupt(MARKER, f"it is not a queue's marker ({error})") from error


async def ensure_marker(store: ObjectStore, layout: str | None, services: Services) -> str:
    """The queue's layout; a queue that is not there yet is made, with the layout asked for."""
    marker = await read_marker(store)
    if marker is None:
        marker = await _require_empty(store, layout)
    if marker is None:
        await probe(store, services)
        marker = await _create(store, layout or LAYOUTS[0], services)
        await keep_reserve(store)
    if layout is not None and marker.layout != layout:
        raise InvalidURL(
            store.name, f"the queue there has layout {marker.layout!r}, not {layout!r}"
        )
    if marker.layout not in LAYOUTS:
        raise Corrupt(MARKER, f"layout {marker.layout!r} is not known to this penstock")
    return marker.layout


async def _require_empty(store: ObjectStore, layout: str | None) -> Marker | None:
    """Refuses to make a new queue over one whose marker is gone, which would hide all its jobs.

    The marker is written before anything else: if it is there by now, somebody has just made it.
    """
    found = await _layout_of_what_is_there(store)
    if found is None or found == layout:
        return None
    marker = await read_marker(store)
    if marker is None and found != (layout or LAYOUTS[0]):
        raise Corrupt(
            MARKER,
            f"it is gone, but a queue of layout {found!r} is there; if that is the queue you want, "
            f"open it once with layout={found}, which writes the marker again",
        )
    return marker


async def _layout_of_what_is_there(store: ObjectStore) -> str | None:
    for layout, prefix in _CONTENTS.items():
        async for _ in store.list(prefix):
            return layout
    return None


async def probe(store: ObjectStore, services: Services) -> None:
    """Refuses a store whose create-only puts do not exclude each other."""
    backoff = services.backoff(0.05, 2.0)
    for _ in range(_TRIES_MAX):
        if await _is_proven(store, services):
            return
        # A server that is still making room for a new bucket answers none of them.
        await services.clock.sleep(backoff.next_seconds())
    raise PutUnknown(store.name, PROBES, f"no clear answer in {_TRIES_MAX} tries")


async def _is_proven(store: ObjectStore, services: Services) -> bool:
    """False if no writer was told anything, of which nothing follows."""
    key = PROBES + services.new_secret()
    bodies = [services.new_secret().encode() for _ in range(PROBE_WRITERS)]
    claims = await asyncio.gather(*(try_put(store, key, body, Create()) for body in bodies))
    try:
        winner = (await store.get(key)).data
    except ObjectNotFound:
        if not any(claims):
            return False
        raise StoreUnfit(store.name, "an object that was just put can't be read back") from None
    finally:
        await store.delete(key)
    if winner not in bodies:
        raise Corrupt(key, "it was read back as nobody wrote it")
    for body, was_told_so in zip(bodies, claims, strict=True):
        # The winner may have been told otherwise: by the echo of its own lost answer.
        if was_told_so and body != winner:
            raise StoreUnfit(store.name, "its create-only puts do not exclude each other")
    return True


async def _create(store: ObjectStore, layout: str, services: Services) -> Marker:
    marker = Marker(UNMOVED_LEVEL, layout, services.new_secret())
    backoff = services.backoff(0.05, 2.0)
    for _ in range(_TRIES_MAX):
        try:
            await store.put(MARKER, msgspec.json.encode(marker), Create())
            return marker
        except (PreconditionFailed, PutUnknown):
            # Somebody else's or our own, whichever is there counts.
            found = await read_marker(store)
            if found is not None:
                return found
            await services.clock.sleep(backoff.next_seconds())
    raise PutUnknown(store.name, MARKER, f"no clear answer in {_TRIES_MAX} tries")


async def try_put(store: ObjectStore, key: str, body: bytes, mode: PutMode) -> bool | None:
    """Whether a conditional put was told that it won; None if it was told nothing."""
    try:
        await store.put(key, body, mode)
        return True
    except PreconditionFailed:
        return False
    except PutUnknown:
        return None
