"""What the server says of itself: whether a queue can be kept there, and how well."""

from __future__ import annotations

import logging
from typing import Final, Literal

from penstock.engines.records.redis.connection import Connection, facts_in
from penstock.errors import PenstockError, StoreUnfit, Unsupported
from penstock.ports.records import SERVER_LOGGER

logger = logging.getLogger(SERVER_LOGGER)

OLDEST: Final = (6, 2)
TOLD_OF_ROOM: Final = (7, 0)
"""From here on a script can say that it may go on where no memory is left."""
Durability = Literal["strict", "relaxed"]


async def require_fit(connection: Connection) -> None:
    """Refuses a server that is too old, or one that throws jobs away when it is full."""
    info = facts_in(await connection.ask("INFO"))
    version = info.get("redis_version", "0")
    if _parts(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Unsupported(f"a queue (it needs {oldest} or newer)", f"Redis {version}")
    is_limited = int(info.get("maxmemory", 0)) > 0
    connection.works_when_full = _parts(version) >= TOLD_OF_ROOM
    if is_limited and not connection.works_when_full:
        logger.warning(
            "%s: when it is full nothing can be written, not even an acknowledgement; with Redis "
            "7.0 or newer, or Valkey, only what adds would be refused",
            connection.name,
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return
    if is_limited:
        raise StoreUnfit(
            connection.name,
            f"the server evicts keys when it is full (maxmemory-policy is {policy}, "
            "set it to noeviction)",
        )
    logger.warning(
        "%s: maxmemory-policy is %s; jobs would be evicted if a maxmemory were set, "
        "so set it to noeviction",
        connection.name,
        policy,
    )


async def durability_of(connection: Connection) -> Durability:
    """Strict if the server syncs its log before it answers; said where it does not."""
    try:
        appends = await _setting(connection, "appendonly")
        syncs = await _setting(connection, "appendfsync")
    except PenstockError as error:
        logger.warning(
            "%s: durability is taken as relaxed, since the server does not say (%s)",
            connection.name,
            error,
        )
        return "relaxed"
    if appends == "yes" and syncs == "always":
        return "strict"
    logger.warning(
        "%s: durability is relaxed (appendonly %s, appendfsync %s): a crash of the server loses "
        "what it has not synced; strict takes appendonly yes and appendfsync always",
        connection.name,
        appends,
        syncs,
    )
    return "relaxed"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


async def _setting(connection: Connection, name: str) -> str:
    found: list[bytes] = await connection.ask("CONFIG", "GET", name)
    return found[1].decode() if found else ""
