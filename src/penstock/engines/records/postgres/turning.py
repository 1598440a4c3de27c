"""A turn as scripts: what is locked, found, decided and written, and in which order.

Rows are locked only where candidates are found, and those that another turn has are passed over, so
that no worker waits for another. Everything else is compared when it is written: a statement that
does not meet the versions it was decided on fails, and the COMMIT that was sent along with it is
skipped. A turn waits for another only where both bring the same new id or key, or change the same
job, and only for a moment (`Collided`): such a transaction of a caller's may last.

Advisory locks make the rest. All turns share one on the charter, and whoever changes it has it
alone; turns in callers' transactions share one of their own, since they may last, and only a
change that closes something waits until nobody has that. And each holds
one on the lowest number that it could be given, so that whoever reads events knows what may still
come, and waits for turns alone and not for every transaction of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from penstock.engines.records.postgres.errors import is_conflict
from penstock.engines.records.postgres.finding import Finder, head_in
from penstock.engines.records.postgres.statements import Statements
from penstock.engines.records.postgres.steps import Ending, Rows, Script, Step
from penstock.engines.records.postgres.writing import Writer
from penstock.errors import InvalidInput
from penstock.ports.records import Ask, Change, Decide

WAIT_SECONDS_MAX: Final = 15.0
"""How long an enqueue in a caller's transaction waits for another that has the same id or key."""
BEGIN: Final = Step("BEGIN")
COMMIT: Final = Step("COMMIT")
ROLLBACK: Final = Step("ROLLBACK")
LOOK: Final = Step("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
_SAVE: Final = Step("SAVEPOINT penstock_turn")
_KEEP: Final = Ending([Step("RELEASE SAVEPOINT penstock_turn")])
_TAKE_BACK: Final = Ending([Step("ROLLBACK TO SAVEPOINT penstock_turn")])


class Ready(Struct, frozen=True):
    """A change that was decided under locks that are still held, and how to write it."""

    change: Change
    steps: Sequence[Step]


class MustBeAlone(Exception):
    """The turn changes the charter, so it has to be taken again while no other is under way."""

    def __init__(self, *, closes: bool) -> None:
        super().__init__(closes)
        self.closes = closes


class Elsewhere(Exception):
    """A caller's connection leads to another queue than ours, or our server was started again."""


class StillOpen(Exception):
    """A transaction of a caller's is, so that nothing can be closed."""


class WrongIsolation(InvalidInput):
    def __init__(self, found: str) -> None:
        super().__init__(
            f"the transaction of the connection is {found.upper()}: a job can be enqueued in one"
            " that is READ COMMITTED"
        )


class Turning:
    def __init__(self, sql: Statements) -> None:
        self.channel = f"penstock_{sql.schema}"
        self._sql = sql
        self._looker = Finder(sql.finding)
        self._finder = Finder(sql.locking)
        self._writer = Writer(sql.writing)
        self._place: Rows = []

    def look(self, ask: Ask, decide: Decide) -> Script[bool]:
        """A turn that writes nothing, and so locks nothing."""
        results = yield [LOOK, self._looker.head()]
        head = head_in(results[1])
        found = yield from self._looker.find(ask(head), head.commit + 1)
        is_enough = decide(found) is None
        yield [COMMIT]
        return is_enough

    def decide(
        self, ask: Ask, decide: Decide, *, alone: MustBeAlone | None
    ) -> Script[Ready | bool]:
        """The change to be committed; or how the turn ended without one."""
        if alone and alone.closes:
            [_, [[nobody_else]]] = yield [BEGIN, Step(self._sql.locking["close"])]
            if not nobody_else:
                yield [ROLLBACK]
                raise StillOpen
        begun = [] if alone and alone.closes else [BEGIN]
        begin = Step(self._sql.locking["begin_alone" if alone else "begin"])
        results = yield [*begun, begin, self._finder.head()]
        shard, head = results[-2][0][-1], head_in(results[-1])
        entries_read = results[-2][0][1]
        change = decide((yield from self._finder.find(ask(head), entries_read=entries_read)))
        if change is None or change.charter_found != head.charter_version:
            yield [ROLLBACK]
            return change is None
        closes = change.charter_closes
        if change.charter is not None and (not alone or (closes and not alone.closes)):
            yield [ROLLBACK]
            raise MustBeAlone(closes=closes)
        self._finder.starts.note_written(change.puts)
        return Ready(change, [*self._writer.write(change, shard)])

    def commit(self, ready: Ready, teller: str) -> Script[None]:
        """Told of once it stands, since to tell within would have all commits queue up."""
        tell = self._writer.tell(self.channel, teller, ready.change)
        yield [*ready.steps, COMMIT, *tell]

    def locate(self) -> Script[None]:
        """Finds out where the queue is, to compare with where a caller's connection leads."""
        [self._place] = yield [Step(self._sql.finding["place"])]

    def within(self, ask: Ask, decide: Decide) -> Script[bool]:
        """A turn in a transaction that somebody else began and will end.

        It writes all of what was decided, or it goes back to its savepoint, also when its caller
        gives up half way. Then it lets go of the savepoint: not in one exchange with the writes,
        since who is cancelled in that could not know if there still is one to go back to. One
        savepoint has one turn at a time.
        """
        sql = self._sql.finding
        begin, isolation, place = (Step(sql[one]) for one in ("begin_within", "isolation", "place"))
        limit = Step(sql["be_impatient"], {"limit": f"{WAIT_SECONDS_MAX:g}s"})
        try:
            results = yield [_SAVE, isolation, limit, place, begin, self._looker.head()]
            shard, head = results[4][0][-1], head_in(results[5])
            if results[3] != self._place:
                raise Elsewhere
            if results[1] != [("read committed",)]:
                # What it sees of the charter may be long past, and nothing would tell.
                raise WrongIsolation(results[1][0][0])
            patience = [Step(sql["be_patient"])] if results[2][0][0] == "0" else []
            change = decide((yield from self._looker.find(ask(head))))
            is_fit = change is not None and change.charter_found == head.charter_version
            if change is not None and is_fit:
                tell = self._writer.tell_within(self.channel, change)
                yield [*self._writer.write(change, shard), *tell, *patience]
        except (Exception, asyncio.CancelledError) as error:
            yield _TAKE_BACK
            yield _KEEP
            if not is_conflict(error):
                raise
            return False
        if not is_fit:
            yield _TAKE_BACK
        yield _KEEP
        return is_fit or change is None
