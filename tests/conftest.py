"""What all tests share: the real servers, and an app with the test kit that users get."""

from __future__ import annotations

import pytest

from penstock.app.app import App
from penstock.testing.clock import FakeClock
from penstock.testing.kit import Kit

pytest_plugins = [
    "tests.servers.plugin",
    "tests.pipeline.plugin",
    "penstock.testing.fixtures",
    "pytester",
]


@pytest.fixture
def app(penstock_app: App) -> App:
    return penstock_app


@pytest.fixture
def clock(penstock_clock: FakeClock) -> FakeClock:
    return penstock_clock


@pytest.fixture
def kit(penstock_kit: Kit) -> Kit:
    return penstock_kit
