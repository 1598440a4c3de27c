"""Bulk imports write objects, and a store of records has none: it says so, and does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock import wiring
from penstock.address import parse
from penstock.errors import InvalidInput, Unsupported
from penstock.kernel.commands import AbortImport, PublishImport
from penstock.kernel.events import SYSTEM_TENANT


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/queue.db?fsync=off"


async def test_bulk_imports_are_refused(url: str) -> None:
    async with penstock.open(url) as queue:
        assert not queue.capabilities.imports
        with pytest.raises(Unsupported, match="bulk imports"):
            await queue.publish_import("run", [])
        assert [event async for event in queue.events(follow=False)] == []


async def test_the_backend_refuses_every_part_of_one(url: str) -> None:
    backend = wiring.open_backend(parse(url, {}))
    await backend.start()
    try:
        for refused in (
            backend.keep_import("run", b""),
            backend.abort_import("run"),
            backend.execute(PublishImport(SYSTEM_TENANT, "run", ())),
            backend.execute(AbortImport(SYSTEM_TENANT, "run")),
        ):
            with pytest.raises(Unsupported, match="bulk imports"):
                await refused
    finally:
        await backend.stop()


def test_nobody_writes_objects_for_one(url: str) -> None:
    with pytest.raises(Unsupported, match="bulk imports"):
        penstock.import_writer(url, "run")


def test_a_layer_has_no_objects_to_go_around(url: str) -> None:
    with pytest.raises(InvalidInput, match="layer"):
        penstock.open(url, layer=lambda store: store)
