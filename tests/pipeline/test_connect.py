"""Spark Connect: only the server has penstock, the client knows nothing of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.clusters import connect_server
from tests.pipeline.queues import write_lives

pytestmark = pytest.mark.slow

CLIENT = """
import sys
sys.modules["penstock"] = sys.modules["pyspark_penstock"] = None
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
jobs = spark.read.format("penstock").options(url=sys.argv[2], table="jobs").load()
print(sorted((row.id, row.state) for row in jobs.select("id", "state").collect()))
"""


def test_a_client_without_penstock_reads_a_queue(tmp_path: Path) -> None:
    url = (tmp_path / "queue").as_uri()
    asyncio.run(write_lives(url))
    with connect_server(tmp_path) as remote:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, remote, url], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "[('a', 'completed'), ('b', 'pending'), ('c', 'cancelled')]" in done.stdout
