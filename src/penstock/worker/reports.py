"""Progress out of processes: what a task with `cpu=True` says reaches the worker that started it.

Each report is one datagram to a socket of the worker's own. A child may be killed at any moment,
and a datagram is there whole or not at all; a shared queue would be left with its lock held.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from penstock.app.context import JobContext
from penstock.kernel.job import Job

REPORT_BYTES_MAX: Final = 4_096
SEND_SECONDS_MAX: Final = 1.0
"""How long a child waits for a worker that does not listen; then the report is dropped."""


class Reports:
    """The worker's end. Must be made and closed in its loop."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="penstock-")
        self.path = str(Path(self._folder) / "reports")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(self.path)
        self._contexts: dict[str, JobContext] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self.read)

    @contextmanager
    def of(self, context: JobContext) -> Iterator[None]:
        """While entered, what is said about this job is taken."""
        self._contexts[context.id] = context
        try:
            yield
            # What was said before the end may still lie there.
            self.read()
        finally:
            del self._contexts[context.id]

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                said = msgspec.json.decode(self._socket.recv(REPORT_BYTES_MAX))
                id, attempt, fraction, message = said
                context = self._contexts.get(id)
                if context is not None and context.attempt == attempt:
                    context.progress(fraction, message)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def child_context(job: Job, path: str) -> JobContext:
    """A job's context in a child: its progress is sent, and nothing of the app's state is here."""

    def send() -> None:
        report = context.untold
        assert report is not None
        words = [job.id, job.attempt, report.fraction, report.message]
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            sender.settimeout(SEND_SECONDS_MAX)
            sender.sendto(msgspec.json.encode(words), path)
        context.tell(report)

    context = JobContext(job, None, send)
    return context
