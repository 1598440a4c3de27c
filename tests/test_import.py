"""Importing penstock costs next to nothing, and a queue loads only what it uses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import penstock

VENDORS = {"obstore", "watchfiles", "uvloop", "rich", "typer", "boto3", "pyarrow"}


def modules_after(code: str) -> set[str]:
    """What a fresh process has loaded after running the code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_importing_it_loads_no_library_at_all() -> None:
    loaded = modules_after("import penstock")
    assert loaded & (VENDORS | {"asyncio", "msgspec", "logging", "urllib", "socket"}) == set()


def test_its_names_are_there_when_they_are_first_used() -> None:
    code = "import penstock; [getattr(penstock, name) for name in penstock.__all__]"
    assert modules_after(code) & VENDORS == set()


def test_a_queue_in_memory_loads_no_vendors_library() -> None:
    code = """
import asyncio, penstock
async def main():
    async with penstock.open("memory://") as queue:
        await queue.enqueue("work")
        [job] = await queue.claim()
        await queue.ack(job)
asyncio.run(main())
"""
    assert modules_after(code) & VENDORS == set()


def test_a_queue_in_a_folder_loads_no_vendors_library_until_somebody_waits(
    tmp_path: object,
) -> None:
    code = f"""
import asyncio, penstock
async def main():
    async with penstock.open("file://{tmp_path}/queue") as queue:
        await queue.enqueue("work")
        [job] = await queue.claim()
        await queue.ack(job)
asyncio.run(main())
"""
    assert modules_after(code) & VENDORS == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        penstock.nonsense  # type: ignore[attr-defined]  # noqa: B018
