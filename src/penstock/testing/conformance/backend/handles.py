"""What the tests of a backend are given: handles on one queue, and the time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from penstock.client.queue import Queue
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock

Connect: TypeAlias = Callable[..., Queue]
"""Makes another handle on the queue under test, not yet started; takes the options of `open`."""


class Handles:
    """Opens handles on the queue under test, and closes them when the test is over."""

    def __init__(self, connect: Connect, clock: FakeClock, *, shared: bool) -> None:
        self._connect = connect
        self._shared = shared
        self._open: list[Queue] = []
        self._stack = AsyncExitStack()
        self.services = Services(clock=clock)

    async def open(self, tenant: str = "default", **options: Any) -> Queue:
        """Another handle on the same queue; the test is left out where there can be only one."""
        return await self._stack.enter_async_context(self.make(tenant, **options))

    def make(self, tenant: str = "default", **options: Any) -> Queue:
        """A handle that is the test's to start and to close."""
        if self._open and not self._shared:
            pytest.skip("each handle of this backend has a queue of its own")
        queue = self._connect(tenant=tenant, services=self.services, **options)
        self._open.append(queue)
        return queue

    async def open_more(self, count: int) -> list[Queue]:
        return [await self.open() for _ in range(count)]

    async def close(self) -> None:
        await self._stack.aclose()


class Setting:
    """The fixtures of the suite. A subclass provides `connect`."""

    # False where each handle is a queue of its own, so that tests with several are left out.
    shared: bool = True

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def connect(self) -> Connect:
        raise NotImplementedError("a subclass says how to open a handle, as a fixture")

    @pytest_asyncio.fixture
    async def handles(self, connect: Connect, clock: FakeClock) -> AsyncIterator[Handles]:
        handles = Handles(connect, clock, shared=self.shared)
        yield handles
        await handles.close()

    @pytest_asyncio.fixture
    async def queue(self, handles: Handles) -> Queue:
        """The first handle, of tenant `default`."""
        return await handles.open()
