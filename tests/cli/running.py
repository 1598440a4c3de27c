"""How the tests run the command line: in this process, or as a real one with signals and pipes."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from typer.testing import CliRunner

from penstock.cli.root import app
from penstock.client.blocking import BlockingQueue
from penstock.kernel.job import Job

ANSWER_SECONDS_MAX = 60.0


def got(queue: BlockingQueue, id: str) -> Job:
    """A job that is there."""
    job = queue.get(id)
    assert job is not None
    return job


class Ran:
    """What a command printed and how it ended."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def object(self) -> Any:
        [line] = self.lines
        return line


class Penstock:
    """`penstock …` on one queue, inside this process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *arguments: str, input: str | None = None, columns: int = 120) -> Ran:
        environment = {"PENSTOCK_URL": self.url, "COLUMNS": str(columns), "PENSTOCK_TRACEBACK": "1"}
        result = CliRunner().invoke(
            app, list(arguments), input=input, env=environment, prog_name="penstock"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def start(self, *arguments: str, folder: Path) -> Running:
        return Running(arguments, self.url, folder)


class Running:
    """A command as a process of its own. Lines of both streams can be waited for."""

    def __init__(self, arguments: tuple[str, ...], url: str, folder: Path) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            cwd=folder,
            env={**os.environ, "PENSTOCK_URL": url, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def until(self, words: str) -> str:
        """The first line not yet seen that has these words."""
        for line in self._unseen():
            if words in line:
                return line
        raise AssertionError(f"it ended without saying {words!r}: {self.lines}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """The exit code, once everything it says has been read."""
        for _ in self._unseen():
            continue
        return self.process.wait(ANSWER_SECONDS_MAX)

    def _unseen(self) -> Iterator[str]:
        while (line := self._arrived.get(timeout=ANSWER_SECONDS_MAX)) is not None:
            self.lines.append(line)
            yield line
        self._arrived.put(None)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._arrived.put(line.rstrip("\n"))
        self._arrived.put(None)
