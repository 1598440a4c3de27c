"""`penstock doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

import typer
from msgspec.structs import asdict

from penstock.address import RECORD_SCHEMES
from penstock.cli.opening import address_of, run
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url
from penstock.cli.output import add_row, out, print_json, say, table, text
from penstock.cli.progress import Done, progress
from penstock.errors import InvalidInput
from penstock.insights.checks import Check
from penstock.insights.probes import Probes
from penstock.insights.stored import StoredState, overdue_leases
from penstock.insights.stored_records import StoredRecords
from penstock.ports.records import RecordStore
from penstock.runtime.services import Services
from penstock.wiring import open_records, open_store

_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "bright_black"}


def command(
    url: UrlArgument = None,
    at: PlainUrl = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the store, not what is stored.")
    ] = False,
    json: Json = False,
) -> None:
    """Uses the store as a queue does, then reads all that is stored and checks it against the
    invariants. Exit code 1 if something fails; warnings leave it at 0.
    """
    checks = run(_examine(one_url(url, at), quick, json))
    worst = sum(check.verdict == "fail" for check in checks)
    if not json:
        _show(checks)
        doubts = sum(check.verdict == "warn" for check in checks)
        summary = f"{len(checks)} checks, {doubts} warnings, {worst} failed"
        say(summary, "red" if worst else "yellow" if doubts else "green")
    if worst:
        raise typer.Exit(1)


async def _examine(url: str | None, quick: bool, json: bool) -> list[Check]:
    found: list[Check] = []
    with progress("examining") as done:
        async for check in _checks(url, quick, done):
            found.append(check)
            if json:
                print_json(asdict(check))
    return found


async def _checks(url: str | None, quick: bool, done: Done) -> AsyncIterator[Check]:
    address = address_of(url)
    if address.scheme == "memory":
        raise InvalidInput("memory:// has no store to examine")
    services = Services()
    if address.scheme in RECORD_SCHEMES:
        async for check in _record_checks(open_records(address, services), services):
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
            yield overdue_leases(stored.state, services.clock.now())
    finally:
        await store.close()


async def _record_checks(store: RecordStore, services: Services) -> AsyncIterator[Check]:
    try:
        stored = StoredRecords(store)
        async for check in stored.run():
            yield check
        if stored.state is not None:
            yield overdue_leases(stored.state, services.clock.now())
    finally:
        await store.close()


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
