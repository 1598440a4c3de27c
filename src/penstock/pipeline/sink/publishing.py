"""What the driver does: publishes what the tasks wrote, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.errors import OutcomeUnknown, RunPublished
from penstock.kernel.commands import ImportReceipt
from penstock.kernel.manifest import ImportManifest
from penstock.pipeline.sink.options import WriteOptions
from penstock.wiring import open_sync

PUBLISH_TRIES_MAX: Final = 3
"""Publishing is safe to repeat, and only repeating tells what became of an unknown outcome."""


def publish(
    options: WriteOptions,
    run: str,
    manifests: Sequence[ImportManifest],
    query: str | None = None,
    batch: int | None = None,
) -> ImportReceipt:
    """One commit for rows without id and key; otherwise batches, gone on with if once begun."""
    has_identities = any(manifest.has_identities for manifest in manifests)
    with open_sync(options.address.url, **options.url_options) as queue:
        act = queue.import_rows if has_identities else queue.publish_import
        for tries_left in reversed(range(PUBLISH_TRIES_MAX)):
            try:
                receipt: ImportReceipt = act(run, manifests, query=query, batch=batch)
                break
            except OutcomeUnknown:
                if not tries_left:
                    raise
    return receipt


def give_up(options: WriteOptions, run: str) -> None:
    """Deletes what was written for a run that nobody will try again."""
    with open_sync(options.address.url, **options.url_options) as queue:
        try:
            queue.abort_import(run)
        except RunPublished:
            return  # the commit that Spark could not hear of was made: the jobs are there
