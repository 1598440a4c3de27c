"""Spark Connect: only the server has penstock, the client knows nothing of it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from penstock.pipeline.java import provide_java
from tests.pipeline.queues import write_lives

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS_MAX = 120
CLIENT = """
import sys
sys.modules["penstock"] = sys.modules["pyspark_penstock"] = None
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
jobs = spark.read.format("penstock").options(url=sys.argv[2], table="jobs").load()
print(sorted((row.id, row.state) for row in jobs.select("id", "state").collect()))
"""


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """The address of a server of its own."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    provide_java(environment)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": tmp_path / "warehouse",
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--class", SERVER, "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _await_port(port, server, tmp_path / "server.log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def test_a_client_without_penstock_reads_a_queue(remote: str, tmp_path: Path) -> None:
    url = (tmp_path / "queue").as_uri()
    asyncio.run(write_lives(url))
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, remote, url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "[('a', 'completed'), ('b', 'pending'), ('c', 'cancelled')]" in done.stdout


def _await_port(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
