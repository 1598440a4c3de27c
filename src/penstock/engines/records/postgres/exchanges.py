"""One exchange with the server on a connection of ours: statements sent together, and their rows.

This is what psycopg's cursors do in pipeline mode, by the functions of libpq that it offers
(`psycopg.pq`). A cursor finds out anew each time what a statement's parameters and rows are made
of, which takes 40 µs for each statement; a turn has a dozen. Here each statement is prepared once
per connection, and its parameters are packed as what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from select import POLLIN, POLLOUT, poll
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, Format
from psycopg.pq.abc import PGresult

from penstock.engines.records.postgres.arrays import Packed, texts

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]

_PARAMETER: Final = re.compile(r"%\((\w+)\)[sb]")
_INTEGER: Final = Struct(">q")
_FLOAT: Final = Struct(">d")
_UNKNOWN: Final = 0
_FAILED: Final = frozenset(
    {ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE, ExecStatus.PIPELINE_ABORTED}
)
_PACKED: Final[Mapping[type, tuple[int, Callable[[Any], bytes]]]] = {
    str: (25, str.encode),
    bytes: (17, bytes),
    int: (20, _INTEGER.pack),
    float: (701, _FLOAT.pack),
}
"""The server's number for the type of a single value, and how it is packed."""


class Step(NamedTuple):
    statement: str
    parameters: Mapping[str, Any] | None = None


class _Sent(NamedTuple):
    """A statement as the server is to get it."""

    query: bytes
    types: tuple[int, ...]
    values: list[bytes | None]


class OwnConnection(psycopg.Connection[Any]):
    """One that nobody else uses, so that what was prepared on it is known."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepares = True
        """Not where a pooler may give each transaction another session."""
        self.prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        """The server's names of statements, by their text and the types of their parameters."""
        self.transformer = Transformer(self)


def exchange(connection: OwnConnection, steps: Sequence[Step]) -> list[Rows]:
    """The rows of each; after an error, which is raised, the server has skipped the others."""
    sent = [_packed(step) for step in steps]
    server = connection.pgconn
    _require_alive(connection)
    server.enter_pipeline_mode()
    try:
        # Of each what is sent: a statement to be prepared, or one to be done (None).
        expected: list[tuple[bytes, tuple[int, ...]] | None] = []
        names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        for one in sent:
            formats = [Format.BINARY] * len(one.values)
            if not connection.prepares:
                server.send_query_params(one.query, one.values, one.types, formats, Format.BINARY)
                expected.append(None)
                continue
            key = (one.query, one.types)
            name = connection.prepared.get(key) or names.get(key)
            if name is None:
                name = names[key] = b"penstock_%d" % (len(connection.prepared) + len(names))
                server.send_prepare(name, one.query, one.types)
                expected.append(key)
            server.send_query_prepared(name, one.values, formats, Format.BINARY)
            expected.append(None)
        server.pipeline_sync()
        results = _received(connection, len(expected) + 1)
    except BaseException:
        # Nobody knows how far the server is: the connection is of no more use.
        server.finish()
        raise
    server.exit_pipeline_mode()
    answers = list(zip(expected, results, strict=False))
    for made, result in answers:
        if made is not None and result.status == ExecStatus.COMMAND_OK:
            connection.prepared[made] = names[made]
    _require_fine(connection, results)
    return [_rows(connection, result) for made, result in answers if made is None]


def _received(connection: OwnConnection, count: int) -> list[PGresult]:
    """So many results, of which the last says that the server is done with all of them."""
    server = connection.pgconn
    waiting = poll()
    waiting.register(server.socket, POLLIN)
    results: list[PGresult] = []
    is_sent = False
    try:
        while len(results) < count:
            if not is_sent:
                is_sent = server.flush() == 0
                waiting.modify(server.socket, POLLIN if is_sent else POLLIN | POLLOUT)
            if server.is_busy():
                waiting.poll()
                server.consume_input()
                continue
            result = server.get_result()
            if result is not None:
                results.append(result)
            elif server.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
    except psycopg.OperationalError:
        # What the server said before it left says more than that it has.
        _require_fine(connection, results)
        raise
    return results


def _require_alive(connection: OwnConnection) -> None:
    if connection.pgconn.status == ConnStatus.BAD:
        raise psycopg.OperationalError("the connection is lost")


def _require_fine(connection: OwnConnection, results: Sequence[PGresult]) -> None:
    for result in results:
        if result.status in _FAILED:
            encoding = connection.info.encoding
            if result.error_field(DiagnosticField.SQLSTATE) is None:
                raise psycopg.OperationalError(result.get_error_message(encoding))
            raise error_from_result(result, encoding)


def _rows(connection: OwnConnection, result: PGresult) -> Rows:
    if not result.ntuples:
        return []
    transformer = connection.transformer
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


def _packed(step: Step) -> _Sent:
    query, names = _positional(step.statement)
    types: list[int] = []
    values: list[bytes | None] = []
    for name in names:
        assert step.parameters is not None
        value = step.parameters[name]
        if value is None:
            types.append(_UNKNOWN)
            values.append(None)
            continue
        if isinstance(value, list):
            # Of names: what many rows are made of comes packed.
            value = texts(value)
        if isinstance(value, Packed):
            types.append(value.oid)
            values.append(value.data)
        else:
            type_number, pack = _PACKED[type(value)]
            types.append(type_number)
            values.append(pack(value))
    return _Sent(query, tuple(types), values)


@lru_cache(maxsize=1_024)
def _positional(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """As the server takes it, with numbers for its parameters, and their names in that order."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(statement)))
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    query = _PARAMETER.sub(lambda found: numbers[found[1]], statement)
    return query.replace("%%", "%").encode(), names
