"""What the tests of a backend are given: handles on one queue, and the time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from penstock.client.queue import Queue
from penstock.kernel.job import Job
from penstock.runtime.identity import random_id
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
        self._next_secrets: list[str] = []
        self.services = Services(clock=clock, new_secret=self._new_secret)

    async def open(self, tenant: str = "default", **options: Any) -> Queue:
        """Another handle on the same queue; the test is left out where there can be only one."""
        if self._open and not self._shared:
            pytest.skip("each handle of this backend has a queue of its own")
        queue = self._connect(tenant=tenant, services=self.services, **options)
        self._open.append(queue)
        return await self._stack.enter_async_context(queue)

    async def open_more(self, count: int) -> list[Queue]:
        return [await self.open() for _ in range(count)]

    def repeat(self, job: Job) -> None:
        """The next claim is a repetition of the one that this job came from, as after a timeout."""
        assert job.lease is not None
        self._next_secrets.append(job.lease.secret)

    async def close(self) -> None:
        await self._stack.aclose()

    def _new_secret(self) -> str:
        return self._next_secrets.pop() if self._next_secrets else random_id()


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
