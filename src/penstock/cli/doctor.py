"""`penstock doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

import typer
from msgspec.structs import asdict

from penstock.address import RECORD_SCHEMES, Address
from penstock.cli.opening import address_of, require_queue, run
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url
from penstock.cli.output import add_row, out, print_json, say, table, text
from penstock.cli.progress import Done, progress
from penstock.engines.presence import Presence
from penstock.errors import FormatError, InvalidInput, StoreError
from penstock.insights.checks import Check
from penstock.insights.probes import Probes
from penstock.insights.serving import types_served
from penstock.insights.stored import StoredState, overdue_leases
from penstock.insights.stored_records import StoredRecords
from penstock.insights.wording import counted
from penstock.kernel.state import QueueState
from penstock.ports.records import RecordStore
from penstock.runtime.services import Services
from penstock.wiring import open_records, open_store

_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "bright_black"}


def command(
    context: typer.Context,
    url: UrlArgument = None,
    at: PlainUrl = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the store, not what is stored.")
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Try the store out where no queue is yet.")
    ] = False,
    json: Json = False,
) -> None:
    """Uses the store as a queue does, then reads all that is stored and checks it against the
    invariants. Exit code 1 if something fails; warnings leave it at 0.
    """
    checks = run(_examine(one_url(context, url, at), quick, probe, json))
    worst = sum(check.verdict == "fail" for check in checks)
    if not json:
        _show(checks)
        doubts = sum(check.verdict == "warn" for check in checks)
        summary = f"{counted(len(checks), 'check')}, {counted(doubts, 'warning')}, {worst} failed"
        say(summary, "red" if worst else "yellow" if doubts else "green")
    if worst:
        raise typer.Exit(1)


async def _examine(url: str | None, quick: bool, probe: bool, json: bool) -> list[Check]:
    address = address_of(url)
    if address.scheme == "memory":
        raise InvalidInput("memory:// has no store to examine")
    if not probe:
        await _require_queue(address)
    found: list[Check] = []
    with progress("examining") as done:
        async for check in _checks(address, quick, done):
            found.append(check)
            if json:
                print_json(asdict(check))
    return found


async def _require_queue(address: Address) -> None:
    """At a wrong address nothing is tried out, which would write there."""
    try:
        await require_queue(address)
    except (StoreError, FormatError):
        # The checks say more about a store that does not answer or a marker that is damaged.
        return


async def _checks(address: Address, quick: bool, done: Done) -> AsyncIterator[Check]:
    services = Services()
    if address.scheme in RECORD_SCHEMES:
        async for check in _record_checks(open_records(address, services), services, quick):
            yield check
        return
    store = open_store(address)
    try:
        reachable = True
        async for check in Probes(store, services).run():
            reachable = reachable and (check.check, check.verdict) != ("reachable", "fail")
            yield check
        if quick or not reachable:
            return
        stored = StoredState(store, done)
        async for check in stored.run():
            yield check
        if stored.state is not None:
            async for check in _now(stored.state, Presence(store, services), services):
                yield check
    finally:
        await store.close()


async def _now(state: QueueState, presence: Presence, services: Services) -> AsyncIterator[Check]:
    now = services.clock.now()
    yield overdue_leases(state, now)
    yield types_served(state, await presence.workers(), now)


async def _record_checks(
    store: RecordStore, services: Services, quick: bool
) -> AsyncIterator[Check]:
    try:
        if quick:
            yield await _reach(store)
            return
        stored = StoredRecords(store)
        async for check in stored.run():
            yield check
        if stored.state is not None:
            async for check in _now(stored.state, Presence(store.side, services), services):
                yield check
    finally:
        await store.close()


async def _reach(store: RecordStore) -> Check:
    """All that can be tried without a look at what is stored: such a store has no other objects."""
    try:
        is_there = await store.exists()
    except StoreError as error:
        return Check("store", "reachable", "fail", str(error))
    said = "there is a queue" if is_there else "there is no queue here yet"
    return Check("store", "reachable", "ok", said)


def _show(checks: list[Check]) -> None:
    rows = table("", "check", "detail", flexible=["detail"])
    area = checks[0].area
    for check in checks:
        if check.area != area:
            rows.add_section()
            area = check.area
        verdict = text(check.verdict, _STYLES[check.verdict])
        add_row(rows, verdict, check.check, text(check.detail, wrap=True))
    out().print(rows)
