"""Spark in more processes than one: a Connect server, and a standalone master with two workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from penstock.pipeline.java import provide_java
from tests.servers.shared import ServerAbsent, is_up_in_time

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
HOSTS = (LOOPBACK, "127.0.0.2")
"""Of the workers: Spark begins no second attempt at a task on a host that has one."""
BIN = Path(pyspark.__file__).parent / "bin"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def environment() -> dict[str, str]:
    """Of every process of a cluster: this Python, this penstock and these tests."""
    found = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    provide_java(found)
    return found


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    port = _free_port()
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": folder / "warehouse",
    }
    command = [str(BIN / "spark-submit"), "--class", CONNECT_SERVER, "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    with _running(folder, "connect", command, port):
        yield f"sc://{LOOPBACK}:{port}"


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    port = _free_port()
    master = ["--host", LOOPBACK, "--port", str(port), "--webui-port", "0"]
    with _running(folder, "master", _deployed("master.Master", *master), port):
        address = f"spark://{LOOPBACK}:{port}"
        workers = (_worker(folder, host, address) for host in HOSTS)
        with next(workers), next(workers):
            yield address


@contextmanager
def _worker(folder: Path, host: str, address: str) -> Iterator[None]:
    port = _free_port()
    said = [
        "--host", host, "--port", str(port), "--webui-port", "0", "--cores", "1",
        "--memory", "1g", "--work-dir", str(folder / host), address,
    ]  # fmt: skip
    with _running(folder, host, _deployed("worker.Worker", *said), port, host):
        yield


def _deployed(what: str, *arguments: str) -> list[str]:
    return [str(BIN / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]


@contextmanager
def _running(
    folder: Path, name: str, command: list[str], port: int, host: str = LOOPBACK
) -> Iterator[None]:
    path = folder / f"{name}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            command, env=environment(), cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        if not is_up_in_time(lambda: process.poll() is None, lambda: _listens(host, port)):
            raise ServerAbsent(f"{name} did not come up: {path.read_text()[-2000:]}")
        yield
    finally:
        process.kill()
        process.wait()


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port
