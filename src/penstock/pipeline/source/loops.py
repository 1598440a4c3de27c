"""Spark asks in plain calls, the stores answer in coroutines: the bridge between the two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TypeVar

T = TypeVar("T")


def drain(items: AsyncGenerator[T]) -> Iterator[T]:
    """The items one by one, on a loop that runs only while the next one is being fetched."""

    async def next_item() -> T | None:
        return await anext(items, None)

    with asyncio.Runner() as runner:
        try:
            while (item := runner.run(next_item())) is not None:
                yield item
        finally:
            runner.run(items.aclose())
