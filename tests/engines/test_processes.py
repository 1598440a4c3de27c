"""Real processes on one folder, file or server: none starves, every job is done exactly once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

import penstock
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import nonzero
from tests.servers.redis import Redis

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 4
JOBS_EACH = 15


@pytest.mark.parametrize(
    "url",
    [
        "file://{folder}/queue?layout=log&fsync=off",
        "file://{folder}/queue?layout=single&fsync=off",
        "sqlite://{folder}/queue.db",
        "{redis}?prefix={prefix}",
    ],
)
async def test_processes_share_a_queue(tmp_path: Path, redis_server: Redis, url: str) -> None:
    url = url.format(folder=tmp_path, redis=redis_server.url, prefix=uuid4().hex)
    total = PROCESSES * JOBS_EACH
    async with asyncio.timeout(120):
        running = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.engines.contender"),
                *(url, f"p{n}", str(JOBS_EACH), str(total)),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
            )
            for n in range(PROCESSES)
        ]
        outputs = [(await process.communicate())[0] for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES
    reports = [json.loads(output) for output in outputs]
    expected = {f"p{n}-{i}" for n in range(PROCESSES) for i in range(JOBS_EACH)}
    assert {id for report in reports for id in report["queued"]} == expected
    assert Counter(id for report in reports for id in report["done"]) == Counter(expected)
    async with penstock.open(url) as queue:
        assert nonzero((await queue.stats()).totals) == {State.COMPLETED: total}
        for id in sorted(expected)[::7]:
            story = [event.event for event in await queue.history(id)]
            assert story == ["enqueued", "claimed", "completed"]
