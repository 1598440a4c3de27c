"""Moves: what a queue knows of leaving for another address, or of being filled from one.

A queue takes part in one move at a time. While that lasts the queue is closed: no job changes,
no lease dies, nothing lapses. So what is there can be copied, compared and copied again, and both
sides see the same however long it takes.

    source                              target
                                        filling   begun before anything else; closed to others
    moved     by one commit, closed
                                                  adopts jobs, a batch a commit
                                        filled    verified, open
    aborted   open again                aborted   only while nothing was adopted
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import BeingFilled, Moved, MoveProblem
from penstock.kernel.events import (
    Adopted,
    FillingAborted,
    FillingBegun,
    FillingEnded,
    MoveEvent,
    QueueMoved,
    QueueReopened,
)


class Phase(StrEnum):
    FILLING = "filling"
    FILLED = "filled"
    MOVED = "moved"
    ABORTED = "aborted"


class Move(Struct, frozen=True, omit_defaults=True):
    """One move, as one of its two queues has it. It is remembered for ever: none happens twice."""

    id: str
    phase: Phase
    peer: str
    """The address of the other queue."""
    position: int
    """Where it began here. What began its life since then, while it was filled, was adopted."""
    as_of: float
    """The time that stands still meanwhile."""
    jobs: int = 0
    """How many were adopted."""
    fences: int = 0
    """Above the fence of every lease that the source gave out."""

    @property
    def is_under_way(self) -> bool:
        return self.phase in (Phase.FILLING, Phase.MOVED)

    def refusal(self) -> MoveProblem:
        """What everybody is told who wants something of a closed queue."""
        return Moved(self.peer) if self.phase is Phase.MOVED else BeingFilled(self.peer)


def under_way(moves: Sequence[Move]) -> Move | None:
    """The move that closes the queue, if one does: only the last one can."""
    return moves[-1] if moves and moves[-1].is_under_way else None


def fence_base(moves: Sequence[Move]) -> int:
    """What fences are counted from here, so that they go on growing for jobs that came along."""
    if not moves:
        return 0
    return max((move.fences for move in moves if move.phase is Phase.FILLED), default=0)


def after(moves: tuple[Move, ...], event: MoveEvent | Adopted) -> tuple[Move, ...]:
    match event:
        case QueueMoved():
            moved = Move(
                event.move, Phase.MOVED, event.target, event.position, event.at, 0, event.fences
            )
            return (*moves, moved)
        case FillingBegun():
            begun = Move(event.move, Phase.FILLING, event.source, event.position, event.as_of)
            return (*moves, begun)
        case Adopted():
            return (*moves[:-1], replace(moves[-1], jobs=moves[-1].jobs + 1))
        case FillingEnded():
            return (*moves[:-1], replace(moves[-1], phase=Phase.FILLED, fences=event.fences))
        case FillingAborted() if under_way(moves) is None:
            forbidden = Move(event.move, Phase.ABORTED, event.source, event.position, event.at)
            return (*moves, forbidden)
        case FillingAborted() | QueueReopened():
            return (*moves[:-1], replace(moves[-1], phase=Phase.ABORTED))
        case _:
            assert_never(event)
