"""What every backend promises, as tests: the contract in executable form.

Subclass it, say how a handle is opened, run pytest (with pytest-asyncio):

    class TestMyBackend(BackendConformance):
        @pytest.fixture
        def connect(self, clock: FakeClock) -> Connect:
            store = Stamped(MyStore(…), clock, stamps={})
            return functools.partial(penstock.open, store=store)

Every test gets handles on one new, empty queue that they share; time is the test's, so the backend
must take it from `services.clock` (`penstock.testing.stamped_store` makes a store do so). What
depends on a capability is tested as the backend's own `capabilities` say.
"""

from __future__ import annotations

import pytest

from penstock.testing.conformance.backend.batches import Batches
from penstock.testing.conformance.backend.calls import Calls
from penstock.testing.conformance.backend.cancelling import Cancelling
from penstock.testing.conformance.backend.claiming import Claiming
from penstock.testing.conformance.backend.closing import Closing
from penstock.testing.conformance.backend.deduplication import Deduplication
from penstock.testing.conformance.backend.enqueuing import Enqueuing
from penstock.testing.conformance.backend.events import Events
from penstock.testing.conformance.backend.expiry import Expiry
from penstock.testing.conformance.backend.handles import Connect, Handles, Setting
from penstock.testing.conformance.backend.importing import Importing
from penstock.testing.conformance.backend.keeping_alive import KeepingAlive
from penstock.testing.conformance.backend.leases import Leases
from penstock.testing.conformance.backend.leaving import Leaving
from penstock.testing.conformance.backend.listing import Listing
from penstock.testing.conformance.backend.looking import Looking
from penstock.testing.conformance.backend.moving import Moving
from penstock.testing.conformance.backend.pausing import Pausing
from penstock.testing.conformance.backend.payloads import Payloads
from penstock.testing.conformance.backend.replaying import Replaying
from penstock.testing.conformance.backend.retention import Retention
from penstock.testing.conformance.backend.retries import Retries
from penstock.testing.conformance.backend.tenants import Tenants
from penstock.testing.conformance.backend.undecodable import UndecodableValues
from penstock.testing.conformance.backend.values import Values
from penstock.testing.conformance.backend.waiting import Waiting

__all__ = ["BackendConformance", "Connect", "Handles"]


@pytest.mark.asyncio
class BackendConformance(
    Enqueuing,
    Payloads,
    Values,
    Claiming,
    Waiting,
    Leases,
    Leaving,
    KeepingAlive,
    Expiry,
    Retries,
    Cancelling,
    Replaying,
    Deduplication,
    Retention,
    Tenants,
    UndecodableValues,
    Batches,
    Pausing,
    Importing,
    Looking,
    Listing,
    Events,
    Calls,
    Moving,
    Closing,
    Setting,
):
    """The promises of `penstock.ports.backend.Backend`, one test each."""
