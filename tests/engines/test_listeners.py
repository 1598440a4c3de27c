"""Those who listen to a queue, and what they are told when it is closed under them."""

from __future__ import annotations

import pytest

from penstock.engines.listeners import Listeners
from penstock.errors import QueueClosed, StoreUnavailable


def test_a_store_that_was_closed_under_a_listener_is_a_closed_queue() -> None:
    listeners = Listeners()
    listeners.close()
    with pytest.raises(QueueClosed), listeners.listening():
        raise StoreUnavailable("db", "", "it was closed")


def test_trouble_of_an_open_queue_stays_what_it_is() -> None:
    with pytest.raises(StoreUnavailable), Listeners().listening():
        raise StoreUnavailable("db", "", "not now")
