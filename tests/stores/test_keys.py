"""Which keys are let through, in every store alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidInput
from penstock.ports.store import Create, ObjectStore
from penstock.stores.keys import KEY_BYTES_MAX
from penstock.stores.local import LocalStore
from penstock.stores.memory import MemoryStore
from tests.servers.gcs_double import GcsDouble

BAD_KEYS = [
    "",
    "/absolute",
    "trailing/",
    "double//slash",
    "..",
    "../outside",
    "a/../b",
    "a/..",
    ".",
    "a/./b",
    "space in it",
    "back\\slash",
    "new\nline",
    "ending\n",
    "nul\0",
    "accent-é",
    "~scratch",
    "query?",
    "x" * (KEY_BYTES_MAX + 1),
]


@pytest.fixture(params=["memory", "local", "cloud"])
def store(request: pytest.FixtureRequest, tmp_path: Path, gcs_double: GcsDouble) -> ObjectStore:
    stores: dict[str, ObjectStore] = {
        "memory": MemoryStore(),
        "local": LocalStore(tmp_path / "queue"),
        "cloud": gcs_double.store(),
    }
    return stores[request.param]


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
async def test_a_key_outside_of_the_alphabet_is_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(InvalidInput, match="can't be an object's key"):
        await store.put(key, b"content", Create())
    with pytest.raises(InvalidInput):
        await store.get(key)
    with pytest.raises(InvalidInput):
        await store.delete(key)


@pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//"])
async def test_a_prefix_can_not_leave_the_store(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(InvalidInput):
        _ = [entry async for entry in store.list(prefix)]
