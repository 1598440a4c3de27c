"""What tests of workers share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds handlers in threads. Open when the test ends, or a failed one would never let go."""
    event = threading.Event()
    yield event
    event.set()


@pytest_asyncio.fixture
async def new_gate() -> AsyncIterator[Callable[[], asyncio.Event]]:
    """The same for handlers in the loop that ignore their cancellation, as many as it takes."""
    events: list[asyncio.Event] = []

    def new() -> asyncio.Event:
        events.append(asyncio.Event())
        return events[-1]

    yield new
    for event in events:
        event.set()
