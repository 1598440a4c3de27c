"""Ready-made values for tests: jobs to hand to a handler, and the luck of one seed.

job = a_job("resize", {"id": 7}, attempt=3)
assert await resize(job) == …
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded by the caller, so that nothing is left to chance
from typing import Any

from penstock.client.newjob import NewJob, submission
from penstock.kernel.commands import Submission
from penstock.kernel.job import Job, Lease, State
from penstock.ports.clock import Clock
from penstock.runtime.services import Services
from penstock.testing.clock import EPOCH, FakeClock
from penstock.wire.codecs import Codecs, to_inline


def a_job(type: str = "work", payload: Any = None, **fields: Any) -> Job:
    """A job as `claim` returns it: running, with a lease of 30 seconds from `EPOCH` on."""
    given = {
        "id": "job",
        "tenant": "default",
        "queue": "default",
        "type": type,
        "life": 1_000_000,
        "enqueued_at": EPOCH,
        "run_at": EPOCH,
        "payload": payload,
        "result": None,
        "state": State.RUNNING,
        "attempt": 1,
        "worker": "worker",
        "lease": Lease(2_000_000, "0" * 32),
        "lease_until": EPOCH + 30,
        "started_at": EPOCH,
        **fields,
    }
    return Job(**given)


def a_submission(id: str = "job", type: str = "work", **fields: Any) -> Submission:
    """A job as it is handed in to the kernel, encoded and checked; takes what `NewJob` takes."""
    new = NewJob(type, id=id, **fields)
    data, codec = Codecs().encode(new.payload, new.codec)
    return submission(new, id, to_inline(data, codec), codec, None)


def seeded_services(seed: int, clock: Clock | None = None) -> Services:
    """Time, luck, ids and secrets that are the same for the same seed, in order of asking."""
    luck, secrets, ids = (random.Random(f"{seed} {what}") for what in ("luck", "secrets", "ids"))
    return Services(
        clock=clock or FakeClock(),
        luck=luck.random,
        new_secret=lambda: f"{secrets.getrandbits(128):032x}",
        new_id=lambda: f"{ids.getrandbits(128):032x}",
    )
