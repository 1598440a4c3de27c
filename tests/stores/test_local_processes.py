"""Several processes on one folder: the promises that threads alone can't put to the test."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.ports.store import Create
from penstock.stores.local import LocalStore

PROCESSES = 6
ROUNDS = 60

RACE_TO_CREATE = """
import asyncio, sys
from penstock.errors import PreconditionFailed
from penstock.ports.store import Create
from penstock.stores.local import LocalStore

async def main(root, me, rounds):
    store = LocalStore(root, fsync=False)
    sys.stdin.readline()
    won = []
    for number in range(rounds):
        try:
            await store.put(f"log/{number:04d}", me.encode() * 5000, Create())
            won.append(number)
        except PreconditionFailed:
            pass
    print(won)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

RACE_TO_COUNT = """
import asyncio, sys
from penstock.errors import PreconditionFailed
from penstock.ports.store import Replace
from penstock.stores.local import LocalStore

async def main(root, me, rounds):
    store = LocalStore(root, fsync=False)
    sys.stdin.readline()
    done = 0
    while done < rounds:
        stored = await store.get("counter")
        try:
            await store.put("counter", str(int(stored.data) + 1).encode(), Replace(stored.version))
            done += 1
        except PreconditionFailed:
            pass
    print(done)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

CREATE_UNTIL_KILLED = """
import asyncio, sys
from penstock.ports.store import Create, Overwrite
from penstock.stores.local import LocalStore

async def main(root):
    store = LocalStore(root)
    number = 0
    while True:
        await store.put(f"log/{number:06d}", b"x" * 100_000, Create())
        await store.put("floor", str(number).encode() * 10_000, Overwrite())
        print(number, flush=True)
        number += 1

asyncio.run(main(sys.argv[1]))
"""


def race(program: str, root: Path) -> list[str]:
    """Starts the processes, lets go of all at once, and returns what each printed."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(root), chr(ord("a") + number), str(ROUNDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    printed = []
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        printed.append(output)
    return printed


@pytest.mark.slow
async def test_of_several_processes_that_create_one_wins_each_key(tmp_path: Path) -> None:
    won = [json.loads(output) for output in race(RACE_TO_CREATE, tmp_path)]
    assert sorted(number for numbers in won for number in numbers) == list(range(ROUNDS))
    store = LocalStore(tmp_path)
    for process, numbers in enumerate(won):
        for number in numbers:
            stored = await store.get(f"log/{number:04d}")
            assert stored.data == chr(ord("a") + process).encode() * 5000


@pytest.mark.slow
async def test_of_several_processes_that_replace_none_loses_an_update(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, fsync=False)
    await store.put("counter", b"0", Create())
    race(RACE_TO_COUNT, tmp_path)
    assert (await store.get("counter")).data == str(PROCESSES * ROUNDS).encode()


@pytest.mark.slow
async def test_a_killed_process_leaves_whole_objects_and_no_lock(tmp_path: Path) -> None:
    for kill in range(5):
        root = tmp_path / str(kill)
        told = told_before_its_death(root, 3 + kill)
        store = LocalStore(root)
        entries = [entry async for entry in store.list("log/")]
        assert len(entries) > told
        assert {entry.size_bytes for entry in entries} == {100_000}
        floor = (await store.get("floor")).data
        assert floor == floor[: len(floor) // 10_000] * 10_000
        await asyncio.wait_for(store.delete("floor"), 10)
        assert [entry.key async for entry in store.list("floor")] == []


def told_before_its_death(root: Path, lines: int) -> int:
    """Lets a process write until it has told of so many commits, and kills it."""
    command = [sys.executable, "-c", CREATE_UNTIL_KILLED, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(lines)]
        os.kill(process.pid, signal.SIGKILL)
    return told[-1]
