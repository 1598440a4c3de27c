"""Those who wait for something to happen to the queue, and how they are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.errors import QueueClosed, StoreError
from penstock.kernel.events import Cancelled, Completed, EndEvent, Event, Failed
from penstock.ports.backend import CancelledListener
from penstock.runtime.tasks import Signal

logger = logging.getLogger(__name__)


class Listeners:
    def __init__(self) -> None:
        self.commits = Signal()
        """Set at every commit that has become true."""
        self.is_closed = False
        self.reached = -1
        """The newest position that is certainly known; who begins to watch has seen up to here."""
        self._count = 0
        self._for_work = 0
        """Those of them who are told by name when there is work, and need no other news."""
        self._present = asyncio.Event()
        self._ends: dict[tuple[str, str], dict[asyncio.Future[EndEvent | None], int]] = {}
        self._cancellations: list[tuple[str, CancelledListener]] = []

    @contextmanager
    def listening(self, *, for_work: bool = False) -> Iterator[None]:
        """While anybody does, the engine looks for others' commits, or for work alone.

        A store that is closed under a listener's read says no more than that it is away; the
        listener is told what has happened.
        """
        self._count += 1
        self._for_work += for_work
        self._present.set()
        try:
            yield
        except StoreError:
            if self.is_closed:
                raise QueueClosed from None
            raise
        finally:
            self._count -= 1
            self._for_work -= for_work
            if self._count == 0:
                self._present.clear()

    async def some(self) -> None:
        """Returns while somebody listens."""
        await self._present.wait()

    @property
    def await_commits(self) -> bool:
        """Whether somebody wants to know of commits, whatever they bring."""
        return self._count > self._for_work

    @property
    def await_events(self) -> bool:
        """Whether somebody wants to know the events, and not only that there were some."""
        return bool(self._ends) or self.await_cancellations

    @property
    def await_cancellations(self) -> bool:
        return bool(self._cancellations)

    @property
    def awaited(self) -> list[tuple[str, str]]:
        """The jobs whose ends are awaited, by tenant and id."""
        return list(self._ends)

    @contextmanager
    def end_of(self, tenant: str, id: str) -> Iterator[asyncio.Future[EndEvent | None]]:
        future: asyncio.Future[EndEvent | None] = asyncio.get_running_loop().create_future()
        waiting = self._ends.setdefault((tenant, id), {})
        waiting[future] = self.reached
        try:
            yield future
        finally:
            future.cancel()
            waiting.pop(future, None)
            if not waiting:
                self._ends.pop((tenant, id), None)

    @contextmanager
    def cancellations_of(self, tenant: str, tell: CancelledListener) -> Iterator[None]:
        entry = (tenant, tell)
        self._cancellations.append(entry)
        try:
            yield
        finally:
            self._cancellations.remove(entry)

    def tell(self, events: Sequence[Event] | None) -> None:
        """A commit has become true; None: many have, look for yourselves."""
        if self._ends:
            self._tell_of_ends(events)
        # Few commits cancel anything, and those of a busy worker are long: one fast look at each.
        if self._cancellations and (events is None or Cancelled in map(type, events)):
            self._tell_of_cancellations(events)
        self.commits.set()

    def tell_of_ends(self, ended: Sequence[tuple[str, str]]) -> None:
        """Jobs that have ended or left, by tenant and id; look for yourselves."""
        for place in ended:
            _resolve(self._ends.get(place, {}), None)

    def close(self) -> None:
        for waiting in self._ends.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(QueueClosed())
        self.is_closed = True
        self.commits.set()

    def _tell_of_ends(self, events: Sequence[Event] | None) -> None:
        if events is None:
            for waiting in self._ends.values():
                _resolve(waiting, None)
            return
        for event in events:
            if isinstance(event, Completed | Failed | Cancelled):
                _resolve(self._ends.get((event.tenant, event.id), {}), event)

    def _tell_of_cancellations(self, events: Sequence[Event] | None) -> None:
        cancelled = [event for event in events or () if isinstance(event, Cancelled)]
        for tenant, tell in list(self._cancellations):
            heard = None if events is None else [e for e in cancelled if e.tenant == tenant]
            try:
                tell(heard)
            except Exception:
                # The commit is true whatever a listener makes of it.
                logger.exception("a listener failed at hearing of cancellations")


def _resolve(waiting: dict[asyncio.Future[EndEvent | None], int], event: EndEvent | None) -> None:
    for future, since in waiting.items():
        if not future.done() and (event is None or event.position > since):
            future.set_result(event)
