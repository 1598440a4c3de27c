"""A PostgreSQL of one test's own, which may be killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.servers.postgres import LAUNCHER, postgres_programs
from tests.servers.shared import free_port, is_up_in_time


class OwnPostgres:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._port = free_port()
        self._log = Path(folder, "log")
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    def start(self) -> None:
        command = [sys.executable, str(LAUNCHER), str(postgres_programs())]
        command += [self._folder, str(self._port)]
        with self._log.open("ab") as log:
            server = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        self._server = server
        if not is_up_in_time(lambda: server.poll() is None, self._is_up):
            raise RuntimeError(self._log.read_text()[-2000:])

    def kill(self) -> None:
        """All of it at once, as if the power went."""
        assert self._server is not None
        doomed = [self._server.pid, *children_of(self._server.pid)]
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        self._server.wait()

    def stop(self) -> None:
        if self._server is not None and self._server.poll() is None:
            # At once, but without leaving its shared memory behind.
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()

    def require_passwords(self) -> None:
        access = Path(self._folder, "cluster", "pg_hba.conf")
        access.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        assert self._server is not None
        self._server.send_signal(signal.SIGHUP)

    def _is_up(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    # Not in the test's folder: a server that runs as another user could not get there.
    folder = tempfile.mkdtemp(prefix="penstock-own-postgres-")
    server = OwnPostgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def children_of(parent: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in listed.stdout.split()]
