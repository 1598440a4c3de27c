"""Fixtures for pytest: say `pytest_plugins = ["penstock.testing.fixtures"]` in your conftest.

@pytest.fixture
def penstock_app():
    return myproject.app

async def test_signing_up_sends_a_mail(penstock_kit):
    ...

def test_the_page_does_too(penstock_kit_sync):
    ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from penstock.app.app import App
from penstock.testing.clock import FakeClock
from penstock.testing.kit import BlockingKit, Kit, in_memory, in_memory_sync


@pytest.fixture
def penstock_app() -> App:
    """The app under test; override it with your own."""
    return App("memory://")


@pytest.fixture
def penstock_clock() -> FakeClock:
    return FakeClock()


@pytest_asyncio.fixture
async def penstock_kit(penstock_app: App, penstock_clock: FakeClock) -> AsyncIterator[Kit]:
    """The app in memory, with its test kit."""
    async with in_memory(penstock_app, penstock_clock) as kit:
        yield kit


@pytest.fixture
def penstock_kit_sync(penstock_app: App, penstock_clock: FakeClock) -> Iterator[BlockingKit]:
    """The same for tests without an event loop."""
    with in_memory_sync(penstock_app, penstock_clock) as kit:
        yield kit
