"""What is said to the server, apart from how: scripts of steps, played on any connection.

A script is a generator. It yields the statements of one exchange and is sent their rows; what it
returns is its answer. All statements of an exchange are sent together (pipeline mode), so that it
costs one round trip, and after an error the server skips the rest of it; the error is thrown into
the script. So the same script runs on a connection of ours and on one of the caller's, of either
kind.

Ours are blocking ones, in threads: an exchange costs a quarter of what the event loop takes for it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg.rows import tuple_row

Answer = TypeVar("Answer")

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]


class Step(NamedTuple):
    statement: str
    parameters: Mapping[str, Any] | None = None


Script: TypeAlias = Generator[Sequence[Step], list[Rows], Answer]


def play(connection: psycopg.Connection[Any], script: Script[Answer]) -> Answer:
    try:
        steps = next(script)
        while True:
            try:
                results = _exchange(connection, steps)
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
    try:
        steps = next(script)
        while True:
            try:
                results = await _exchange_async(connection, steps)
            except psycopg.Error as error:
                steps = script.throw(error)
            else:
                steps = script.send(results)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    finally:
        script.close()


def _exchange(connection: psycopg.Connection[Any], steps: Sequence[Step]) -> list[Rows]:
    cursors = [psycopg.Cursor(connection, row_factory=tuple_row) for _ in steps]
    with connection.pipeline():
        for cursor, step in zip(cursors, steps, strict=True):
            cursor.execute(step.statement, step.parameters, binary=True)
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


async def _exchange_async(
    connection: psycopg.AsyncConnection[Any], steps: Sequence[Step]
) -> list[Rows]:
    cursors = [psycopg.AsyncCursor(connection, row_factory=tuple_row) for _ in steps]
    async with connection.pipeline():
        for cursor, step in zip(cursors, steps, strict=True):
            await cursor.execute(step.statement, step.parameters, binary=True)
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
