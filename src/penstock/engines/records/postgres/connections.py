"""Connections that are kept for the next who needs one, and made where there is none.

Whoever finds none idle makes one in its own thread and is told at once if the server refuses it.
So nobody waits for a pool that tries again in its own time: how soon an outage is over here is up
to those who try (`Database.patiently`). How many there are is up to the threads that ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from penstock.ports.clock import Clock

IDLE_SECONDS_MAX: Final = 600.0
"""A connection that nobody has needed for this long is closed."""
LIFE_SECONDS_MAX: Final = 3_600.0
"""So that a server can let go of what it remembers for one, and a new address is noticed."""

AnyConnection: TypeAlias = Connection[Any]


class Connections:
    def __init__(self, connect: Callable[[], AnyConnection], clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._lock = Lock()
        self._idle: list[tuple[AnyConnection, float, float]] = []
        """Each with when it was made and when it was last given back; the latest is the last."""
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[AnyConnection]:
        """What is left unfinished on it is rolled back.

        After an error it is not used again: psycopg may believe that the server has prepared what
        it skipped. One that broke has most likely not broken alone.
        """
        connection, made_at = self._take()
        try:
            yield connection
        except psycopg.Error:
            if connection.broken:
                self._drop_idle()
            connection.close()
            raise
        except BaseException:
            self._give_back(connection, made_at)
            raise
        self._give_back(connection, made_at)

    def close(self) -> None:
        self._is_closed = True
        self._drop_idle()

    def _take(self) -> tuple[AnyConnection, float]:
        with self._lock:
            if self._idle:
                connection, made_at, _ = self._idle.pop()
                return connection, made_at
        return self._connect(), self._clock.elapsed()

    def _give_back(self, connection: AnyConnection, made_at: float) -> None:
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.rollback()
        now = self._clock.elapsed()
        spent: list[AnyConnection] = []
        is_good = connection.info.transaction_status is TransactionStatus.IDLE
        with self._lock:
            if is_good and not self._is_closed and now - made_at < LIFE_SECONDS_MAX:
                self._idle.append((connection, made_at, now))
            else:
                spent.append(connection)
            while self._idle and now - self._idle[0][2] > IDLE_SECONDS_MAX:
                spent.append(self._idle.pop(0)[0])
        for one in spent:
            one.close()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _, _ in idle:
            connection.close()
