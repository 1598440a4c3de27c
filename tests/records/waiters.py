"""Handles that count what waiting costs, and a process that has some of them wait for work.

python -m tests.records.waiters URL HANDLES
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import AsyncExitStack
from typing import Self

import penstock
from penstock import Queue
from penstock.engines.records.postgres.store import PostgresStore
from penstock.engines.records.redis.store import RedisStore
from penstock.ports.records import Ask, Decide, Due, Head, Need, Wanted
from penstock.ports.wakes import Waiter
from penstock.runtime.services import Services

WAIT_SECONDS = 600.0


class _Counting:
    """Beside a store: what it was asked. `claims` are the turns that had claims in them."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def count(self, ask: Ask) -> Ask:
        is_counted = False

        def counted(head: Head) -> Need:
            nonlocal is_counted
            need = ask(head)
            if not is_counted:
                is_counted = True
                self.asked["claims" if need.wanted else "others"] += 1
            return need

        return counted


class CountingRedis(RedisStore):
    def __init__(self, url: str, services: Services) -> None:
        server, _, prefix = url.partition("?prefix=")
        super().__init__(server, prefix, services)
        self.counting = _Counting()

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        return await super().turn(self.counting.count(ask), decide, is_read=is_read)

    async def next_due(self, wanted: Wanted, waiter: Waiter | None = None) -> Due:
        self.counting.asked["looks"] += 1
        return await super().next_due(wanted, waiter)


class CountingPostgres(PostgresStore):
    def __init__(self, url: str, services: Services) -> None:
        super().__init__(url, services)
        self.counting = _Counting()

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        return await super().turn(self.counting.count(ask), decide, is_read=is_read)

    async def next_due(self, wanted: Wanted, waiter: Waiter | None = None) -> Due:
        self.counting.asked["looks"] += 1
        return await super().next_due(wanted, waiter)


Counted = CountingRedis | CountingPostgres


def counted(url: str) -> Counted:
    kind = CountingRedis if url.startswith("redis") else CountingPostgres
    return kind(url, Services())


class Crowd:
    """Handles that each wait for a job, complete it and wait for the next."""

    def __init__(self, url: str, handles: int, types: list[str] | None = None) -> None:
        self._stores = [counted(url) for _ in range(handles)]
        self._types = types
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        for store in self._stores:
            queue = await self._stack.enter_async_context(penstock.open(store=store))
            task = group.create_task(self._toil(queue))
            self._stack.callback(task.cancel)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    @property
    def asked(self) -> Counter[str]:
        return sum((store.counting.asked for store in self._stores), Counter())

    async def _toil(self, queue: Queue) -> None:
        while True:
            for job in await queue.claim(types=self._types, wait_seconds=WAIT_SECONDS):
                await queue.ack(job)


async def main(url: str, handles: int) -> None:
    loop = asyncio.get_running_loop()
    async with Crowd(url, handles) as crowd:
        # A line on its standard input asks for what was counted so far; its end is ours.
        while await loop.run_in_executor(None, sys.stdin.readline):
            sys.stdout.write(json.dumps(crowd.asked) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
