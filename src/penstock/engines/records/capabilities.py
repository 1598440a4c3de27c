"""What every store of records can do under the one engine; and what depends on the store."""

from __future__ import annotations

from typing import Literal

from penstock.kernel.settings import WEEK_SECONDS
from penstock.ports.backend import Capabilities


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
