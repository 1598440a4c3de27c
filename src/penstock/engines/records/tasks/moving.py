"""Moves of a whole queue that is many objects: the charter closes it, then each task is sealed.

The charter alone would not do, because turns may go by one that is some seconds old. So a closing
puts every task once more (`turns` says why nothing slips through), and only then is answered. What
the clocks of many processes have said by then is known as well: the charter is put again, saying
that all are sealed, with positions and fences above everything that any of them has.

How many jobs were adopted is not counted by each adoption: that would be one object in the way of
all. While a target is filled its charter counts the batches that have begun, so that nobody aborts
what may arrive; at the end the jobs themselves are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.decisions import Decider, Holding
from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.looking import TASKS_PER_READ, all_tasks
from penstock.engines.records.tasks.names import TASKS, task_key, task_name
from penstock.engines.records.tasks.turns import TURNS_LOST_MAX, Turns, TurnsLost
from penstock.errors import MoveProblem, PenstockError
from penstock.kernel.commands import (
    Adopt,
    BeginFilling,
    CarriedKey,
    CarryDepartures,
    CarryKeys,
    EndFilling,
    FindConflicts,
    MoveCommand,
    MoveQueue,
    Newcomer,
    Outcome,
)
from penstock.kernel.events import Event, KeyCarried
from penstock.kernel.job import Job
from penstock.kernel.moves import Move, Phase, fence_base
from penstock.ports.store import ObjectStore
from penstock.wire.record import Charter
from penstock.wire.task import CharterObject, Task


class Mover:
    def __init__(
        self,
        store: ObjectStore,
        turns: Turns,
        charter: CharterStore,
        decider: Decider,
        clock: CommitClock,
    ) -> None:
        self._store = store
        self._turns = turns
        self._charter = charter
        self._decider = decider
        self._clock = clock

    async def perform(self, command: MoveCommand | FindConflicts) -> Any:
        match command:
            case MoveQueue() | BeginFilling():
                return await self._close(command)
            case Adopt():
                return await self._adopt(command)
            case CarryKeys():
                carried = [await self._carry(command, one) for one in command.keys]
                return sum(carried)
            case CarryDepartures():
                noted = await in_parallel(
                    lambda one: self._carry_departure(command, one), command.departed
                )
                return sum(noted)
            case EndFilling():
                return await self._open(command)
            case FindConflicts():
                found = await in_parallel(
                    lambda one: self._conflicts(command.tenant, one), command.newcomers
                )
                return [conflict for conflicts in found for conflict in conflicts]
            case _:
                return await self._charter.take(command)

    # Closing

    async def _close(self, command: MoveQueue | BeginFilling) -> Move:
        move = await self._charter.take(command)
        if isinstance(move, PenstockError):
            raise move
        assert isinstance(move, Move)
        if not move.is_under_way or self._charter.object.sealed == move.id:
            return move
        newest = await self._seal_all(move.id)
        sealed = move

        def note(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            nonlocal sealed
            *earlier, last = found.charter.moves
            if last.id != sealed.id or not last.is_under_way:
                # Somebody has taken it back.
                return found, ()
            sealed = last if found.sealed == last.id else _above(newest, earlier, last)
            charter = replace(found.charter, moves=(*earlier, sealed))
            return replace(found, charter=charter, sealed=sealed.id), ()

        await self._charter.change(note)
        return sealed

    async def _seal_all(self, move: str) -> int:
        """Puts every task once more; answers the highest position that any of them has."""
        newest, keys = 0, list[str]()
        async for entry in self._store.list(TASKS):
            keys.append(entry.key)
            if len(keys) == TASKS_PER_READ:
                newest = max(newest, *await in_parallel(lambda key: self._seal(key, move), keys))
                keys = []
        return max([newest, *await in_parallel(lambda key: self._seal(key, move), keys)])

    async def _seal(self, key: str, move: str) -> int:
        """One that can't be read stops the move: it would be left behind."""
        while True:
            kept = await self._turns.tasks.read(key)
            if kept is None:
                # Vacuum had counted it out before the queue was closed.
                return 0
            if kept.document.sealed != move:
                kept = await self._turns.settled(key, kept)
                if kept.version is None:
                    continue
                after = stories.sealed(kept.document, kept.modified_at, move)
                kept = await self._turns.tasks.put(key, kept, after)
            if kept is not None:
                return stories.last_position(kept.document)

    # Filling

    async def _adopt(self, command: Adopt) -> list[Outcome[bool]]:
        async def adopt(job: Job) -> Outcome[bool]:
            one = Adopt(command.tenant, command.move, [job])
            try:
                [outcome] = await self._turns.take(command.tenant, job.id, one)
            except PenstockError as error:
                return error
            return outcome  # type: ignore[no-any-return]  # what the kernel answers to this

        await self._count_batch(command.move, 1)
        outcomes = await in_parallel(adopt, command.jobs)
        if all(_is_certain_refusal(outcome) for outcome in outcomes):
            await self._count_batch(command.move, -1)
        return outcomes

    async def _count_batch(self, move: str, number: int) -> None:
        def count(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            last = found.charter.moves[-1] if found.charter.moves else None
            jobs = 0 if last is None else last.jobs + number
            return replace(found, charter=_with_jobs(found.charter, move, jobs)), ()

        await self._charter.change(count)

    async def _open(self, command: EndFilling) -> Any:
        await self._charter.refresh()
        filling = self._charter.move
        jobs = 0
        if filling is not None:
            # Positions are times, and whatever is claimed here stands above the filling's: only
            # what is missing is added, or a few moves would make fences too large a number.
            command = replace(command, fences=max(0, command.fences - filling.position))
            async for _, kept in all_tasks(self._store, self._turns):
                task = kept.document
                is_ours = task.sealed == filling.id and task.job is not None
                if is_ours and task.job is not None and task.job.life > filling.position:
                    jobs += 1
        return await self._charter.take(
            command, lambda charter: _with_jobs(charter, command.move, jobs)
        )

    async def _carry(self, command: CarryKeys, carried: CarriedKey) -> int:
        one = CarryKeys(command.tenant, command.move, [carried])
        new = Newcomer(carried.id, carried.queue, carried.type, carried.key)
        for _ in range(TURNS_LOST_MAX):
            answer, events, holding = await self._decided(one, new)
            assert holding is not None
            if isinstance(answer, PenstockError):
                raise answer
            carries = [event for event in events if isinstance(event, KeyCarried)]
            if not carries:
                return 0
            if await self._turns.holders.carry(holding[1], carries[0]):
                return 1
        raise TurnsLost(self._store.name, carried.key, f"{TURNS_LOST_MAX} turns in a row were lost")

    async def _carry_departure(self, command: CarryDepartures, id: str) -> int:
        departed = command.departed[id]
        one = replace(command, departed={id: departed})
        key = task_key(task_name(command.tenant, id))
        for _ in range(TURNS_LOST_MAX):
            kept = await self._turns.read(command.tenant, id)
            if kept is not None and kept.document.buried:
                await self._turns.spare(key, kept)
                continue
            task = Task(command.tenant, id) if kept is None else kept.document
            answer, events = self._decider.beside(
                one, task, (), self._charter.current, self._clock.now()
            )
            if isinstance(answer, PenstockError):
                raise answer
            if not events:
                return 0
            after = replace(task, departed=departed, quiet=True, sealed=command.move)
            if await self._turns.tasks.put(key, kept, after) is not None:
                return 1
        raise TurnsLost(self._store.name, key, f"{TURNS_LOST_MAX} turns in a row were lost")

    async def _conflicts(self, tenant: str, new: Newcomer) -> list[str]:
        conflicts, _, _ = await self._decided(FindConflicts(tenant, [new]), new)
        if isinstance(conflicts, PenstockError):
            raise conflicts
        return list(conflicts)

    async def _decided(self, work: CarryKeys | FindConflicts, new: Newcomer) -> tuple[Any, ...]:
        """What the kernel says to this beside the job and the key's holder, as they are."""
        kept = await self._turns.read(work.tenant, new.id)
        task = Task(work.tenant, new.id) if kept is None else kept.document
        holding, holdings = None, list[Holding]()
        if new.key is not None:
            scope = (new.queue, new.type, new.key)
            holding = await self._turns.holding(task, scope)
            holdings = [holding[0]]
        answer, events = self._decider.beside(
            work, task, holdings, self._charter.current, self._clock.now()
        )
        return answer, events, holding


def _above(newest: int, earlier: Sequence[Move], move: Move) -> Move:
    """The move, begun above all positions there were, or with fences above all given out."""
    if move.phase is Phase.FILLING:
        return replace(move, position=max(move.position, newest + 1))
    return replace(move, fences=max(move.fences, fence_base(earlier) + newest + 1))


def _with_jobs(charter: Charter, move: str, jobs: int) -> Charter:
    """Where that move is filling the queue."""
    if not charter.moves or (charter.moves[-1].id, charter.moves[-1].phase) != (
        move,
        Phase.FILLING,
    ):
        return charter
    *earlier, last = charter.moves
    return replace(charter, moves=(*earlier, replace(last, jobs=jobs)))


def _is_certain_refusal(outcome: Outcome[bool]) -> bool:
    return isinstance(outcome, MoveProblem)
