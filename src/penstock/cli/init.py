"""`penstock init`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from penstock.address import STORES, Address
from penstock.cli.opening import address_of, opened, run
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url, refuse_unused
from penstock.cli.output import print_json, say
from penstock.errors import InvalidInput
from penstock.ports.backend import Capabilities
from penstock.ports.store import Bucket
from penstock.wiring import open_store


def command(
    context: typer.Context,
    url: UrlArgument = None,
    at: PlainUrl = None,
    layout: Annotated[
        str | None, typer.Option("--layout", help="log (the default), single or tasks.")
    ] = None,
    versioning: Annotated[
        bool, typer.Option("--versioning", help="S3: let the bucket keep old versions.")
    ] = False,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            "--cors", metavar="ORIGIN", help="S3: let pages from there read it; repeatable."
        ),
    ] = None,
    allow_no_versioning: Annotated[
        bool, typer.Option("--allow-no-versioning", help="Layout tasks: go without versions.")
    ] = False,
    json: Json = False,
) -> None:
    """A queue that is there already stays as it is, so this can be said again. `enqueue` and
    workers make a queue too; this also sets the bucket up, with rights that they need not have.
    """
    if versioning:
        refuse_unused(context, "beside --versioning", "allow_no_versioning")
    said: dict[str, Any] = {} if layout is None else {"layout": layout}
    if allow_no_versioning:
        said["allow_no_versioning"] = True
    made = run(_make(one_url(context, url, at), said, versioning=versioning, origins=cors or []))
    if json:
        print_json(asdict(made))
        return
    history = ", old versions are kept" if made.versions else ""
    say(f"{made.backend} is a queue: order {made.order}, events {made.events}{history}")


async def _make(
    url: str | None, said: dict[str, Any], *, versioning: bool, origins: list[str]
) -> Capabilities:
    address = address_of(url)
    if versioning or origins:
        await _set_up(address, versioning=versioning, origins=origins)
    async with opened(url, make=True, tells_of_server=True, **said) as queue:
        return queue.capabilities


async def _set_up(address: Address, *, versioning: bool, origins: list[str]) -> None:
    if address.scheme not in STORES:
        raise _no_bucket(address)
    store = open_store(address)
    bucket: object = store
    try:
        if not isinstance(bucket, Bucket):
            raise _no_bucket(address)
        if versioning:
            await bucket.keep_versions()
        if origins:
            await bucket.allow_origins(origins)
    finally:
        await store.close()


def _no_bucket(address: Address) -> InvalidInput:
    return InvalidInput(
        "--versioning and --cors are for S3 buckets; set up what is at "
        f"{address.shown_url} by its own tools"
    )
