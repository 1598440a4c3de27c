"""One soak: chaos while there is work, then peace until all is done, then the count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random
from typing import Final

import penstock
from penstock.address import RECORD_SCHEMES, parse
from penstock.errors import PenstockError
from penstock.insights.checks import Check
from penstock.insights.stored import StoredState
from penstock.insights.stored_records import StoredRecords
from penstock.kernel.events import Claimed
from penstock.runtime.services import Services
from penstock.wiring import open_records, open_store
from tests.soak.crew import Crew
from tests.soak.faults import Faults
from tests.soak.judging import Line, Outcome, judge
from tests.soak.places import Place, place_named
from tests.soak.proxy import Proxy, proxy_to

DRAIN_SECONDS_MAX: Final = 300.0
FOLLOW_SECONDS_MAX: Final = 60.0
LOOK_SECONDS: Final = 0.5
NOT_PROMISED: Final = {"claims follow the order"}
"""Of stores where turns overlap, which have no one order."""


@dataclass(frozen=True)
class Report:
    backend: str
    jobs: int
    leases: int
    events: int
    gaps: int
    faults: Counter[str]
    troubles: Counter[str]
    seconds: float
    broken: list[str]

    @property
    def verdict(self) -> str:
        made = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items()))
        verdict = f"{len(self.broken)} BROKEN" if self.broken else "all kept"
        return (
            f"{self.backend}: {verdict} ({self.jobs} jobs, {self.leases} leases, {self.events} "
            f"events, {self.gaps} gaps told, {self.seconds:.0f} s; {made})"
        )


async def soak(
    backend: str, *, seconds: float | None = None, faults: int | None = None, seed: int = 0
) -> Report:
    """Faults for so long, or so many of them; the seed says which, not what comes of them."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        place = stack.enter_context(place_named(backend))
        proxy: Proxy | None = None
        if place.server is not None:
            proxy = await stack.enter_async_context(proxy_to(place.port))
        crew = Crew(place.url_through(proxy.port) if proxy else place.url)
        stack.push_async_callback(crew.kill)
        await _make(place)
        await crew.start()
        chaos = Faults(place, proxy, crew, Random(seed))

        def enough() -> bool:
            if faults is not None:
                return chaos.made.total() >= faults
            return time.monotonic() - began >= (seconds or 0.0)

        await chaos.go_on(enough)
        broken = [*chaos.stuck, *await _settle(place, crew)]
        outcome = await _outcome(place)
        await crew.until(lambda: _all_followed(crew, outcome), FOLLOW_SECONDS_MAX)
        await crew.stop("follower")
        broken += [*crew.faults, *judge(crew.statements, outcome)]
        broken += [f"{check.check}: {check.detail}" for check in await _stored(place)]
    return Report(
        backend=backend,
        jobs=len(outcome.states),
        leases=sum(event == "claimed" for _, event, _, _ in outcome.log),
        events=len(outcome.log),
        gaps=sum(len(one.gaps) for one in crew.statements),
        faults=chaos.made,
        troubles=sum((seat.troubles for seat in crew.seats), Counter()),
        seconds=time.monotonic() - began,
        broken=broken,
    )


async def _make(place: Place) -> None:
    """The queue itself, with what it is to keep until the count."""
    day = 86_400.0
    async with penstock.open(place.url, result_ttl_seconds=day, log_retention_seconds=day):
        pass


async def _settle(place: Place, crew: Crew) -> list[str]:
    """Nothing new comes, and what there is gets done."""
    await crew.stop("producer")
    left: dict[str, int] = {}
    try:
        async with asyncio.timeout(DRAIN_SECONDS_MAX), penstock.open(place.url) as queue:
            while True:
                totals = (await queue.stats()).totals
                left = {str(state): count for state, count in totals.items() if count}
                if left.keys() <= {"completed"}:
                    break
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return [f"after {DRAIN_SECONDS_MAX:g} s of peace there are still {left}"]
    finally:
        await crew.stop("worker")
    return []


async def _outcome(place: Place) -> Outcome:
    async with penstock.open(place.url) as queue:
        states = {job.id: str(job.state) async for job in queue.jobs()}
        log: list[Line] = []
        async for event in queue.events("beginning", follow=False):
            fence = event.lease.fence if isinstance(event, Claimed) else 0
            log.append((event.position, event.event, getattr(event, "id", ""), fence))
        is_ordered = queue.capabilities.events == "ordered"
    return Outcome(states, log, is_ordered, forgets=place.forgets)


def _all_followed(crew: Crew, outcome: Outcome) -> bool:
    followers = [one for one in crew.statements if one.follows]
    # Asked at every line that is told, so what is cheap comes first.
    if any(len(one.seen) < len(outcome.log) for one in followers):
        return False
    log = set(outcome.log)
    return all(log <= set(one.seen) for one in followers)


async def _stored(place: Place) -> list[Check]:
    """What `penstock doctor` finds wrong with what is stored."""
    address = parse(place.url, {})
    try:
        if address.scheme in RECORD_SCHEMES:
            records = open_records(address, Services())
            try:
                checks = [check async for check in StoredRecords(records).run()]
            finally:
                await records.close()
        else:
            store = open_store(address)
            try:
                checks = [check async for check in StoredState(store).run()]
            finally:
                await store.close()
    except PenstockError as error:
        return [Check("stored", "readable", "fail", str(error))]
    return [one for one in checks if one.verdict == "fail" and one.check not in NOT_PROMISED]
