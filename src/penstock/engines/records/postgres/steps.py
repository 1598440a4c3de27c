"""What is said to the server, apart from how: scripts of steps, played on any connection.

A script is a generator. It yields the statements of one exchange and is sent their rows; what it
returns is its answer. All statements of an exchange are sent together (pipeline mode), so that it
costs one round trip, and after an error the server skips the rest of it; the error is thrown into
the script. A statement alone is sent as such. So the same script runs on a connection of ours and
on one of the caller's, of either kind.

Ours are blocking ones, in threads: an exchange costs a quarter of what the event loop takes for it.

On a connection of ours an exchange is `exchanges.exchange`. On one of the caller's nothing of ours
is prepared, and what takes back is sent alone: psycopg then forgets all that the caller has
prepared, and in the midst of an exchange that would come late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from penstock.engines.records.postgres.exchanges import (
    OwnConnection,
    Row,
    Rows,
    Step,
    exchange,
)
from penstock.runtime.tasks import to_the_end

__all__ = ["Ending", "Row", "Rows", "Script", "Step", "play", "play_async"]

Answer = TypeVar("Answer")

_IDLE: Final = TransactionStatus.IDLE


class Ending(list[Step]):
    """An exchange that leaves a caller's transaction in order, whoever gives up meanwhile."""


Script: TypeAlias = Generator[Sequence[Step], list[Rows], Answer]


def play(
    connection: psycopg.Connection[Any],
    script: Script[Answer],
    *,
    is_ours: bool = True,
    settings: Step | None = None,
) -> Answer:
    """`settings` are to hold in every transaction, where sessions keep none."""
    try:
        steps = next(script)
        while True:
            try:
                if settings is not None and connection.info.transaction_status is _IDLE:
                    results = _exchange_with(settings, connection, steps)
                else:
                    results = _exchange(connection, steps, is_ours=is_ours)
            except psycopg.Error as error:
                steps = script.throw(error)
            else:
                steps = script.send(results)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    finally:
        script.close()


async def play_async(connection: psycopg.AsyncConnection[Any], script: Script[Answer]) -> Answer:
    """On a connection of the caller's; a script is told too that the caller gave up."""
    try:
        steps = next(script)
        while True:
            try:
                exchange = _exchange_async(connection, steps)
                results = await (to_the_end(exchange) if type(steps) is Ending else exchange)
            except (psycopg.Error, asyncio.CancelledError) as error:
                steps = script.throw(error)
            else:
                steps = script.send(results)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    finally:
        script.close()


def _exchange_with(
    settings: Step, connection: psycopg.Connection[Any], steps: Sequence[Step]
) -> list[Rows]:
    """After a BEGIN, or before what is a transaction by itself, as all of an exchange then is."""
    place = 1 if steps[0].statement.startswith("BEGIN") else 0
    results = _exchange(connection, [*steps[:place], settings, *steps[place:]], is_ours=True)
    return [*results[:place], *results[place + 1 :]]


def _exchange(
    connection: psycopg.Connection[Any], steps: Sequence[Step], *, is_ours: bool
) -> list[Rows]:
    if is_ours:
        assert isinstance(connection, OwnConnection)
        return exchange(connection, steps)
    cursors = [psycopg.Cursor(connection, row_factory=tuple_row) for _ in steps]
    failure: psycopg.Error | None = None
    try:
        with connection.pipeline() if len(steps) > 1 else nullcontext():
            try:
                for cursor, step in zip(cursors, steps, strict=True):
                    cursor.execute(step.statement, step.parameters, prepare=False, binary=True)
            except psycopg.Error as error:
                # Not through the pipeline, which would log that it fails to end as well.
                failure = error
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        raise failure
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


async def _exchange_async(
    connection: psycopg.AsyncConnection[Any], steps: Sequence[Step]
) -> list[Rows]:
    cursors = [psycopg.AsyncCursor(connection, row_factory=tuple_row) for _ in steps]
    failure: psycopg.Error | asyncio.CancelledError | None = None
    try:
        async with connection.pipeline() if len(steps) > 1 else nullcontext():
            try:
                for cursor, step in zip(cursors, steps, strict=True):
                    await cursor.execute(
                        step.statement, step.parameters, prepare=False, binary=True
                    )
            except (psycopg.Error, asyncio.CancelledError) as error:
                failure = error
    except (psycopg.Error, asyncio.CancelledError) as error:
        failure = failure or error
    if failure is not None:
        raise failure
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
