"""What can be said about a write, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.address import RECORD_SCHEMES, STORES, Address
from penstock.client.rows import check_run
from penstock.errors import InvalidOption, Unsupported
from penstock.pipeline.source.options import queue_address
from penstock.runtime.services import Services

_TAKING_IMPORTS: Final = (None, "log", "single")
"""Layouts; None is whichever the queue has."""


class WriteOptions(Struct, frozen=True, kw_only=True):
    address: Address
    run: str
    """Of a batch write: the same run again changes nothing."""
    is_run_named: bool
    """By the caller, who may try the same run again after a failure."""
    query: str | None = None
    """Of a stream: what its batches are counted under; by default the id in its checkpoint."""
    tenant: str | None = None

    @property
    def takes_imports(self) -> bool:
        """Whether rows can lie in objects beside the queue until a commit makes jobs of them."""
        address = self.address
        return address.scheme in STORES and address.options.layout in _TAKING_IMPORTS

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
    )


def require_append(overwrite: bool) -> None:
    if overwrite:
        raise InvalidOption("mode", "overwrite", "jobs are only ever added: mode('append')")
