"""The port inside the ledger: where the engine's commits go, and where others' come from.

The engine owns the turn-taking: it calls `catch_up` and `append` one at a time. A journal owns the
state, since only it knows when a change has become true.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from msgspec import Struct

from penstock.engines.consumers import Execute
from penstock.engines.ledger.imports.objects import ImportObjects
from penstock.engines.presence import Presence
from penstock.kernel.commands import AnyCommand
from penstock.kernel.events import Event, JobEvent
from penstock.kernel.job import Job
from penstock.kernel.stamps import Stamp
from penstock.kernel.state import QueueState
from penstock.ports.backend import Capabilities, VacuumReport


class Head(Struct, frozen=True):
    """The newest commit that the state contains."""

    commit: int
    stamp: Stamp
    chain: str

    @property
    def at(self) -> float:
        return self.stamp.at


Listener = Callable[[Sequence[Event] | None], None]
"""Told the events of each commit once it is true, own or foreign; None after a jump, when the
events between are not at hand and whoever waits should look at the state."""


def ledger_capabilities(
    backend: str,
    *,
    push: bool,
    multi_process: bool,
    durability: Literal["strict", "none"],
) -> Capabilities:
    """What every ledger can do, whatever its journal is; and what depends on that."""
    return Capabilities(
        backend=backend,
        push=push,
        history=True,
        versions=False,
        order="strict",
        pause="strict",
        limits="strict",
        atomic_batch=True,
        events="ordered",
        durability=durability,
        multi_process=multi_process,
        offload=True,
        imports=True,
    )


async def nothing_to_close() -> None:
    """Of a journal whose store belongs to somebody else."""


class Journal(Protocol):
    on_close: Callable[[], Awaitable[None]]
    """Called at the end of `close`: lets go of the store, where it was made for this journal."""

    @property
    def state(self) -> QueueState: ...

    @property
    def head(self) -> Head: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def imports(self) -> ImportObjects: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def state_bytes(self) -> int | None:
        """How much a start has to read; None if there is nothing to read."""
        ...

    async def open(self) -> None:
        """Loads the state, creating the queue if it is new."""
        ...

    async def close(self) -> None: ...

    def stamp(self) -> Stamp:
        """The time to decide at: calibrated, and never before the newest commit."""
        ...

    def turn(self) -> AbstractContextManager[object]:
        """Held from deciding to appending, by whoever shares the state in this process."""
        ...

    async def ready_to_write(self) -> None:
        """Called before a batch with a command is decided, so that its time can be trusted.

        `ClockSkew` if it can't. Opening and reading need neither a clock nor the right to write.
        """
        ...

    async def catch_up(self) -> bool:
        """Takes in what others have committed. Afterwards the state is no older than the call.

        True: there was something new.
        """
        ...

    async def append(self, events: Sequence[Event], stamp: Stamp) -> bool:
        """Makes provisional events, already applied to the state, durable as the next commit.

        True: they stand. False: somebody else had the slot; the events were rolled back and the
        state is fresh. An error: they were rolled back and certainly did not happen. It does not
        return while the outcome is unknown, however long that lasts.
        """
        ...

    def riders(self) -> list[AnyCommand]:
        """Housekeeping to add to a batch that commits anyway; never worth a commit of its own."""
        ...

    async def vacuum(self, execute: Execute) -> VacuumReport:
        """Deletes what no reader can need any more."""
        ...

    async def first_commit(self) -> int:
        """The oldest commit whose events can still be read."""
        ...

    async def read(self, commit: int, positions: Collection[int]) -> Sequence[Event]:
        """Those of one earlier commit that are at these positions; `Gap` if they are gone."""
        ...

    async def read_on(self, commit: int) -> tuple[int, Sequence[Event]]:
        """All its events, with those of as many commits after it as come at once; and the last."""
        ...

    async def history(
        self, job: Job | None, tenant: str, id: str, life: int | None
    ) -> list[JobEvent]:
        """Of this life, or of the latest; `job` is that one if it is still there."""
        ...

    async def changed(self, timeout_seconds: float) -> None:
        """Returns when others may have committed: at the store's word, or when the time is up."""
        ...

    async def keep(self, id: str, data: bytes) -> str: ...

    async def fetch(self, key: str) -> bytes: ...
