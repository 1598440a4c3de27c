"""What can be said about a write, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.address import RECORD_SCHEMES, STORES, Address
from penstock.client.rows import check_run
from penstock.engines.ledger.marker import LAYOUTS, read_marker
from penstock.errors import InvalidOption, Unsupported
from penstock.pipeline.source.opening import opened_store
from penstock.pipeline.source.options import queue_address
from penstock.runtime.loops import run_apart
from penstock.runtime.services import Services

_TAKING_IMPORTS: Final = frozenset({"log", "single"})
"""Layouts."""


class WriteOptions(Struct, frozen=True, kw_only=True):
    address: Address
    run: str
    """Of a batch write: the same run again changes nothing."""
    is_run_named: bool
    """By the caller, who may try the same run again after a failure."""
    query: str | None = None
    """Of a stream: what its batches are counted under; by default the id in its checkpoint."""
    tenant: str | None = None
    takes_imports: bool
    """Whether rows can lie in objects beside the queue until a commit makes jobs of them."""

    @property
    def url_options(self) -> dict[str, Any]:
        return {} if self.tenant is None else {"tenant": self.tenant}


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    known = ("url", "run", "query", "tenant")
    for name in given:
        # `save(url)` arrives as `path`, and Spark's own option of a stream comes along.
        if name not in known and name not in ("path", "checkpointlocation", "checkpointLocation"):
            raise InvalidOption(name, given[name], f"known options are {', '.join(known)}")
    run = given.get("run")
    if run is not None:
        check_run(run)
    address = queue_address(given.get("url") or given.get("path"))
    if address.scheme not in (*STORES, *RECORD_SCHEMES):
        rule = "bulk imports, which is how Spark fills a queue: use enqueue_many"
        raise Unsupported(rule, f"{address.scheme}://")
    return WriteOptions(
        address=address,
        run=run or Services().new_id(),
        is_run_named=run is not None,
        query=given.get("query"),
        tenant=given.get("tenant"),
        takes_imports=address.scheme in STORES and run_apart(_layout(address)) in _TAKING_IMPORTS,
    )


async def _layout(address: Address) -> str:
    """That of the queue which is there, or else the one that it will be made with."""
    async with opened_store(address, Services()) as store:
        marker = await read_marker(store)
    return marker.layout if marker else address.options.layout or LAYOUTS[0]


def require_append(overwrite: bool) -> None:
    if overwrite:
        raise InvalidOption("mode", "overwrite", "jobs are only ever added: mode('append')")
