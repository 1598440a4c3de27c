"""What can be said about a queue that moves, or has moved, to another address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.errors.root import PenstockError

NAMED_MAX: Final = 5
"""How many conflicts a message names."""


class MoveProblem(PenstockError):
    """Something about a move of a whole queue."""


class Moved(MoveProblem):
    """The queue is at another address now; open it at `target`."""

    def __init__(self, target: str) -> None:
        super().__init__(f"this queue has moved to {target}; open it there")
        self.target = target


class BeingFilled(MoveProblem):
    """The queue takes in the jobs of another one; try again when all are there."""

    def __init__(self, source: str) -> None:
        super().__init__(
            f"this queue is being filled from {source} and opens when all is there; "
            f"if nobody does so, run `penstock migrate {source}` to here again"
        )
        self.source = source


class MoveConflict(MoveProblem):
    """The target has jobs with the same ids or keys; remove them there, or choose another."""

    def __init__(self, conflicts: Sequence[str], count: int | None = None) -> None:
        count = len(conflicts) if count is None else count
        named = "; ".join(conflicts[:NAMED_MAX])
        more = f"; and {count - NAMED_MAX:,} more" if count > NAMED_MAX else ""
        super().__init__(
            f"the target has {count:,} of its own in the way: {named}{more}. "
            "Nothing was moved: cancel and archive them there, or choose an empty target"
        )
        self.conflicts = tuple(conflicts)
        self.count = count


class MoveUnverified(MoveProblem):
    """What arrived is not what was sent; the source has it all: look into both, move again."""

    def __init__(self, difference: str) -> None:
        super().__init__(
            f"what arrived is not what was sent: {difference}. The target stays closed and the "
            "source has everything; run `penstock doctor` on both, then migrate again"
        )
        self.difference = difference


class MoveAborted(MoveProblem):
    """The move was given up and can't go on; finish aborting it, then begin anew."""

    def __init__(self, peer: str) -> None:
        super().__init__(
            f"this move between here and {peer} was aborted; "
            "finish that with `penstock migrate --abort`, then begin anew"
        )
        self.peer = peer


class MoveBegun(MoveProblem):
    """The target has adopted jobs, so the move can't be given up; run it again to finish it."""

    def __init__(self, jobs: int) -> None:
        super().__init__(
            f"{jobs:,} jobs were adopted by the target, so the move can't be aborted any more; "
            "run `penstock migrate` again to finish it"
        )
        self.jobs = jobs


class MoveUnknown(MoveProblem):
    """No move of that name has begun here; begin one with `penstock migrate`."""

    def __init__(self, move: str) -> None:
        super().__init__(f"no move {move!r} is known here; begin with `penstock migrate`")
        self.move = move
