"""A process that is stopped in the middle of a turn: `python -m tests.records.freezing URL WHERE`.

It enqueues one job and stops itself, either between two exchanges with the server or in the midst
of the one that writes, with half of its statements sent. Once continued it says how that ended.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import Any

import psycopg

import penstock
from penstock.engines.records.postgres import database, steps
from penstock.engines.records.postgres.arrays import know_arrays

database.TRANSACTION_SECONDS_MAX = 3.0  # type: ignore[misc]


def stop_here() -> None:
    """Sent to this thread itself: one sent to the process may reach another thread, a bit later."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def stop_once(where: str) -> None:
    exchange = steps._exchange
    pending = [where]

    def stop(connection: psycopg.Connection[Any], sent: Any, *, is_ours: bool) -> list[Any]:
        writes = any(step.statement == "COMMIT" for step in sent)
        if writes and len(sent) > 2 and pending:
            pending.clear()
            if where == "between":
                stop_here()
            else:
                half = sent[: len(sent) // 2]
                know_arrays(connection)
                with connection.pipeline():
                    for step in half:
                        connection.execute(step.statement, step.parameters, binary=True)
                    # What was queued is sent, and the server answers, but it is told no end.
                    connection._pipeline.pgconn.send_flush_request()  # type: ignore[union-attr]
                    connection._pipeline.pgconn.flush()  # type: ignore[union-attr]
                    stop_here()
                raise psycopg.OperationalError("it went on with what it had begun")
        return exchange(connection, sent, is_ours=is_ours)

    steps._exchange = stop  # type: ignore[assignment]


async def main(url: str, where: str) -> None:
    async with penstock.open(url) as queue:
        stop_once(where)
        receipt = await queue.enqueue("work", id="frozen")
        sys.stdout.write(f"{receipt.status}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
