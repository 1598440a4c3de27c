"""The committed log as it lies in the store, taken in as it grows; vacuumed commits included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.engines.ledger.memory import SharedMemory
from penstock.engines.ledger.names import log_key
from penstock.engines.ledger.single.document import Document, decode_document
from penstock.kernel.events import (
    Claimed,
    Enqueued,
    Event,
    Imported,
    JobEvent,
    Paused,
    Replayed,
    Resumed,
    commit_of,
    position_of,
)
from penstock.kernel.invariants import Committed
from penstock.kernel.invariants.record import ENDS, JOB_EVENTS
from penstock.kernel.segments import id_of
from penstock.testing.simulation.stores import RememberedStore
from penstock.wire.commit import decode_commit

if TYPE_CHECKING:
    from penstock.testing.simulation.world import World


class CommittedLog:
    """What is common: which jobs are live and which queues paused, as of the newest commit."""

    keeps_all_events = True
    """Also those that are not about a job, for as long as the log is kept."""

    def __init__(self) -> None:
        self._commits: list[Committed] = []
        self._live: set[tuple[str, str]] = set()
        self._paused: set[tuple[str, str]] = set()
        self._last: dict[str, int] = {}

    def commits(self) -> Sequence[Committed]:
        """All of them, from the first to the newest."""
        while (commit := self._next(len(self._commits) + 1)) is not None:
            self._commits.append(commit)
            for event in commit.events:
                self._see(event)
        return self._commits

    def is_quiet(self) -> bool:
        self.commits()
        return not self._live

    def last_of(self, tenant: str) -> int:
        """The position of the newest event that the tenant's followers have to see."""
        self.commits()
        return self._last.get(tenant, 0)

    def paused(self) -> list[tuple[str, str]]:
        self.commits()
        return sorted(self._paused)

    def _see(self, event: Event) -> None:
        if event.__class__ in JOB_EVENTS or self.keeps_all_events:
            self._last[event.tenant] = event.position
        if isinstance(event, Imported):
            self._live.update((event.tenant, id_of(event.run, row)) for row in range(event.rows))
        elif isinstance(event, Enqueued | Replayed):
            self._live.add((event.tenant, event.id))
        elif isinstance(event, Paused):
            self._paused.add((event.tenant, event.queue))
        elif isinstance(event, Resumed):
            self._paused.discard((event.tenant, event.queue))
        elif event.__class__ in ENDS:
            self._live.discard((event.tenant, event.id))  # type: ignore[union-attr]  # of a job

    def _next(self, commit: int) -> Committed | None:
        raise NotImplementedError


class StoredLog(CommittedLog):
    def __init__(self, store: RememberedStore) -> None:
        super().__init__()
        self._store = store

    def _next(self, commit: int) -> Committed | None:
        data = self._store.log.get(commit)
        if data is None:
            return None
        read = decode_commit(log_key(commit), data)
        header = read.header
        return Committed(
            header.commit, header.commit_id, header.at, read.events, header.previous, read.chain,
            header.epoch, self._store.stored_at[commit], header.clock,
        )  # fmt: skip


class DocumentedLog(CommittedLog):
    """Of layout `single`: the newest events of every version that `queue.json` ever had."""

    keeps_all_events = False

    def __init__(self, store: RememberedStore) -> None:
        super().__init__()
        self._store = store

    def document(self, commit: int) -> Document:
        return decode_document(self._store.documents[commit - 1])

    def _next(self, commit: int) -> Committed | None:
        if commit > len(self._store.documents):
            return None
        document = self.document(commit)
        newest = {event.position: event for event in document.events}
        newest |= {event.position: event for record in document.jobs for event in record.events}
        events = [newest[at] for at in sorted(newest) if commit_of(at) == document.commit]
        return Committed(
            document.commit, document.commit_id, document.at, events,
            stored_at=self._store.stored_at[commit], clock=document.clock,
        )  # fmt: skip


class RememberedLog(CommittedLog):
    """Of `memory://`: the ring, which is long enough for any simulation."""

    def __init__(self, memory: SharedMemory) -> None:
        super().__init__()
        self._memory = memory

    def _next(self, commit: int) -> Committed | None:
        events = self._memory.ring.get(commit)
        if events is None:
            return None
        return Committed(commit, str(commit), events[0].at, events)


class TurnsLog(CommittedLog):
    """Of layout `tasks`: every put that brought events, as a commit, in the order of the store.

    There the positions of different jobs are in no order, so here they are counted anew.
    """

    def __init__(self, store: RememberedStore) -> None:
        super().__init__()
        self._store = store
        self._lives: dict[tuple[str, str, int], int] = {}

    def _next(self, commit: int) -> Committed | None:
        if commit > len(self._store.turns):
            return None
        stored_at, told, clock = self._store.turns[commit - 1]
        events = [self._placed(event, commit, index) for index, event in enumerate(told)]
        return Committed(commit, str(commit), told[-1].at, events, stored_at=stored_at, clock=clock)

    def _placed(self, event: Event, commit: int, index: int) -> Event:
        position = position_of(commit, index)
        if isinstance(event, Claimed):
            event = replace(event, fence=event.lease.fence)
        if isinstance(event, JobEvent):
            life = (event.tenant, event.id, event.life)
            event = replace(event, life=self._lives.setdefault(life, position))
        return replace(event, position=position)


def committed_log(world: World) -> CommittedLog:
    match world.plan.layout:
        case "log":
            return StoredLog(world.store)
        case "single":
            return DocumentedLog(world.store)
        case "tasks":
            return TurnsLog(world.store)
        case _:
            return RememberedLog(world.memory)
