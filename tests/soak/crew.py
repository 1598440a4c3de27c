"""The processes of a soak, each with a place that is filled again when its holder was killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.soak.judging import Statement

ROOT: Final = Path(__file__).resolve().parents[2]
STOP_SECONDS_MAX: Final = 90.0
ROLES: Final = ("producer", "producer", "worker", "worker", "worker", "follower", "follower")


class Seat:
    """One place of the crew; whoever sits there goes on where the one before was stopped."""

    def __init__(self, role: str, url: str, number: int, on_news: Callable[[], None]) -> None:
        self.role = role
        self.statement = Statement(follows=role == "follower")
        self.troubles: Counter[str] = Counter()
        self.faults: list[str] = []
        self._url = url
        self._number = number
        self._on_news = on_news
        self._lives = 0
        self._process: Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._is_ending = False

    async def start(self) -> None:
        name = f"{self.role}{self._number}-{self._lives}"
        self._lives += 1
        self._is_ending = False
        command = [sys.executable, "-m", "tests.soak.member", self.role, self._url, name]
        if self.statement.seen:
            command.append(str(self.statement.seen[-1][0]))
        self._process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=PIPE, stderr=PIPE
        )
        self._listening = asyncio.create_task(self._listen(self._process))

    async def kill(self) -> None:
        """At once, wherever it is; what it had told is known all the same."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Lets it finish what it is at."""
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await self._end(signal.SIGTERM)
        except TimeoutError:
            self.faults.append(f"a {self.role} did not stop in {STOP_SECONDS_MAX:g} s")
            await self.kill()

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, number)

    async def _end(self, number: signal.Signals) -> None:
        self._is_ending = True
        self.send(signal.SIGCONT)
        self.send(number)
        if self._listening is not None:
            await self._listening

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        complaining = asyncio.create_task(process.stderr.read())
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):
                told = json.loads(line)
                self.statement.add(told)
                if "trouble" in told:
                    self.troubles[told["trouble"]] += 1
                self._on_news()
        complaint = (await complaining).decode(errors="replace")
        code = await process.wait()
        if code != 0 and not self._is_ending:
            self.faults.append(f"a {self.role} died by itself ({code}): {complaint[-600:]}")


class Crew:
    def __init__(self, url: str) -> None:
        self._news = asyncio.Event()
        self.seats = [Seat(role, url, number, self._news.set) for number, role in enumerate(ROLES)]

    @property
    def statements(self) -> list[Statement]:
        return [seat.statement for seat in self.seats]

    @property
    def faults(self) -> list[str]:
        return [fault for seat in self.seats for fault in seat.faults]

    def done(self) -> int:
        return sum(len(seat.statement.done) for seat in self.seats)

    async def start(self) -> None:
        for seat in self.seats:
            await seat.start()

    async def stop(self, *roles: str) -> None:
        await asyncio.gather(*(seat.stop() for seat in self.seats if seat.role in roles))

    async def kill(self) -> None:
        for seat in self.seats:
            await seat.kill()

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Looks again at everything that is told; false if it does not hold in time."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True
