"""What tests of workers share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds handlers in threads. Open when the test ends, or a failed one would never let go."""
    event = threading.Event()
    yield event
    event.set()
