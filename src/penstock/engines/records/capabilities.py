"""What every store of records can do under the one engine; and what depends on the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from penstock.kernel.settings import WEEK_SECONDS
from penstock.ports.backend import Capabilities
from penstock.ports.store import ObjectStore, Watchable


def record_capabilities(
    backend: str,
    *,
    push: bool,
    order: Literal["strict", "approximate"],
    durability: Literal["strict", "relaxed"],
    multi_process: bool = True,
    batches_at_once: int = 1,
    works_when_full: bool = False,
    log_retention_seconds: float = WEEK_SECONDS,
) -> Capabilities:
    return Capabilities(
        backend=backend,
        push=push,
        history=True,
        versions=False,
        order=order,
        pause="strict",
        limits="strict",
        atomic_batch=True,
        events="ordered",
        durability=durability,
        multi_process=multi_process,
        offload=True,
        batches_at_once=batches_at_once,
        works_when_full=works_when_full,
        log_retention_seconds=log_retention_seconds,
    )


def task_capabilities(store: ObjectStore, *, versions: bool, shards: Sequence[str]) -> Capabilities:
    """Of layout `tasks`: there is no transaction over two objects, nor an order among them."""
    return Capabilities(
        backend=store.name,
        push=isinstance(store, Watchable),
        history=True,
        versions=versions,
        order="approximate",
        pause="eventual",
        limits="eventual",
        atomic_batch=False,
        events="per_job",
        durability="strict",
        multi_process=True,
        offload=True,
        shards="".join(shards),
        selection="bounded",
        listing="by_name",
        registration_seconds=60.0,
    )
