"""What all tests share: the real servers, and an app with the test kit that users get."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from penstock.app.app import App
from penstock.testing.clock import FakeClock
from penstock.testing.kit import Kit
from tests.imports import forgotten_imports

pytest_plugins = [
    "tests.servers.plugin",
    "tests.pipeline.plugin",
    "penstock.testing.fixtures",
    "pytester",
]


def pytest_configure() -> None:
    # Python would take two modules that tests write within a second for one if both are as long.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # A shell has what it runs in the background ignore it, and all that is started from there.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _modules_of_a_test_are_gone_after_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    with forgotten_imports(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture
def app(penstock_app: App) -> App:
    return penstock_app


@pytest.fixture
def clock(penstock_clock: FakeClock) -> FakeClock:
    return penstock_clock


@pytest.fixture
def kit(penstock_kit: Kit) -> Kit:
    return penstock_kit
