"""What is done to a soak: one fault after the other, each undone before the next."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from tests.soak.crew import Crew, Seat
from tests.soak.places import Place, send_all
from tests.soak.proxy import Proxy

PROGRESS_JOBS: Final = 10
"""How many jobs have to be done between two faults: chaos without work shows nothing."""
PROGRESS_SECONDS_MAX: Final = 120.0
MEMBER_FROZEN_SECONDS_MAX: Final = 6.0
"""Longer than a lease, so that some wake up with one that another has by now."""
SERVER_AWAY_SECONDS_MAX: Final = 4.0
PAUSE_SECONDS_MAX: Final = 1.0


class Faults:
    def __init__(self, place: Place, proxy: Proxy | None, crew: Crew, luck: Random) -> None:
        self._place = place
        self._proxy = proxy
        self._crew = crew
        self._luck = luck
        self.made: Counter[str] = Counter()
        self.stuck: list[str] = []
        """After which nothing went on for a long time."""

    async def go_on(self, until: Callable[[], bool]) -> None:
        """One at a time, each after some work was done, until that is enough."""
        kinds = list(self._kinds().items())
        while not until():
            # Each kind once before any comes again, so that a short run has all of them.
            self._luck.shuffle(kinds)
            for name, act in kinds:
                if until():
                    break
                await self._progress(name)
                await asyncio.sleep(self._luck.uniform(0, PAUSE_SECONDS_MAX))
                await act()
                self.made[name] += 1
        await self._progress("the last fault")

    def _kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "member killed": self._kill_member,
            "member frozen": self._freeze_member,
        }
        if self._proxy is not None:
            kinds |= {
                "server killed": self._kill_server,
                "server frozen": self._freeze_server,
                "connections cut": self._cut,
                "connections held up": self._hold,
            }
        if self._place.can_be_filled:
            kinds["server full"] = self._fill
        return kinds

    async def _progress(self, before: str) -> None:
        done = self._crew.done()
        went_on = await self._crew.until(
            lambda: self._crew.done() >= done + PROGRESS_JOBS, PROGRESS_SECONDS_MAX
        )
        if not went_on:
            self.stuck.append(f"nothing went on for {PROGRESS_SECONDS_MAX:g} s before: {before}")

    def _member(self) -> Seat:
        return self._luck.choice(self._crew.seats)

    async def _kill_member(self) -> None:
        seat = self._member()
        await seat.kill()
        await seat.start()

    async def _freeze_member(self) -> None:
        seat = self._member()
        seat.send(signal.SIGSTOP)
        await asyncio.sleep(self._luck.uniform(0.5, MEMBER_FROZEN_SECONDS_MAX))
        seat.send(signal.SIGCONT)

    async def _kill_server(self) -> None:
        server = self._place.server
        assert server is not None
        if self._place.forgets:
            await asyncio.to_thread(self._place.keep)
            await self._progress("the server is set back")
        await asyncio.to_thread(server.kill)
        try:
            await asyncio.sleep(self._luck.uniform(0, SERVER_AWAY_SECONDS_MAX))
        finally:
            assert self._proxy is not None
            # A server that answers before it is whole is not asked.
            self._proxy.hold()
            await asyncio.to_thread(server.start)
            self._proxy.let_go()

    async def _freeze_server(self) -> None:
        processes = self._place.processes()
        send_all(processes, signal.SIGSTOP)
        try:
            await asyncio.sleep(self._luck.uniform(0.5, SERVER_AWAY_SECONDS_MAX))
        finally:
            send_all(processes, signal.SIGCONT)

    async def _cut(self) -> None:
        assert self._proxy is not None
        self._proxy.cut()

    async def _hold(self) -> None:
        assert self._proxy is not None
        self._proxy.hold()
        try:
            await asyncio.sleep(self._luck.uniform(0.5, SERVER_AWAY_SECONDS_MAX))
            if self._luck.random() < 0.5:
                self._proxy.cut()
        finally:
            self._proxy.let_go()

    async def _fill(self) -> None:
        await asyncio.to_thread(self._place.fill)
        try:
            await asyncio.sleep(self._luck.uniform(0.5, SERVER_AWAY_SECONDS_MAX))
        finally:
            await asyncio.to_thread(self._place.empty)
