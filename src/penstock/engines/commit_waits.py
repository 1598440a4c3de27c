"""Waiting for work where every commit is heard of and a look costs little: all who wait look."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from penstock.engines.group_commit import GroupCommit
from penstock.errors import QueueClosed


class CommitWaits(GroupCommit):
    @abstractmethod
    async def _due_seconds(
        self, tenant: str, queues: Sequence[str] | None, types: Sequence[str] | None
    ) -> float:
        """How long until a claim may find something, or a lease dies; 0 or less: now."""

    async def wait_ready(
        self,
        tenant: str,
        queues: Sequence[str] | None,
        types: Sequence[str] | None,
        timeout_seconds: float,
    ) -> None:
        self._require_open()
        until = self._services.clock.elapsed() + timeout_seconds
        with self._listeners.listening():
            while (rest := until - self._services.clock.elapsed()) > 0:
                if self._listeners.is_closed:
                    raise QueueClosed
                # Taken before looking, so that nothing that happens meanwhile is missed.
                news = self._listeners.commits.next()
                due = await self._due_seconds(tenant, queues, types)
                if due <= 0:
                    news.cancel()
                    return
                happened = await self._listeners.commits.wait(min(rest, due), news)
                if not happened and due <= rest:
                    return
