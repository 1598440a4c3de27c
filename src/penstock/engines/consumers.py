"""Registered readers of events: vacuum waits for them, but not for ever."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from penstock.kernel.commands import AnyCommand, DropConsumer
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.settings import DAY_SECONDS

logger = logging.getLogger(__name__)

CONSUMER_SILENCE_SECONDS: Final = 30 * DAY_SECONDS

Execute = Callable[[AnyCommand], Awaitable[Any]]
"""How housekeeping gets a command decided and committed by its engine."""


async def drop_silent(
    consumers: Mapping[str, tuple[int, float]], now: float, execute: Execute
) -> None:
    """A reader that has not moved for so long is gone; the log can't wait for it for ever."""
    since = now - CONSUMER_SILENCE_SECONDS
    for name, (_, moved_at) in list(consumers.items()):
        if moved_at < since:
            logger.warning("dropped consumer %s: silent for 30 days", name)
            await execute(DropConsumer(SYSTEM_TENANT, name))
