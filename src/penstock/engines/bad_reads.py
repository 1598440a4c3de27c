"""An altered answer may be the network's doing; what stays bad is the object's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from penstock.errors import Corrupt

Answer = TypeVar("Answer")

READS_OF_A_BAD_OBJECT: Final = 3


async def again_if_bad(read: Callable[[], Awaitable[Answer]]) -> Answer:
    """What was read; `Corrupt` if that is what every read says."""
    for _ in range(READS_OF_A_BAD_OBJECT - 1):
        try:
            return await read()
        except Corrupt:
            continue
    return await read()
