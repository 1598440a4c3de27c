"""How much room a job takes once it is done, by the bytes of its rows; and how it is given back."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import penstock
from penstock.engines.records.postgres import steps, writing
from tests.records.own_postgres import own_postgres
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")

JOBS = 20
ROW_BYTES_MAX = 1_200
"""Of the record and of three commits, each of one event; indexes and pages come on top."""
TOTAL_BYTES_MAX = 1_500
ROUNDS = 5
JOBS_PER_ROUND = 250


async def test_a_finished_job_takes_little_room(postgres_server: Postgres) -> None:
    database, schema = postgres_server.new_database(), new_schema()
    async with penstock.open(f"{database}?schema={schema}&fsync=off") as queue:
        for number in range(JOBS):
            await queue.enqueue("work", {"number": number})
            [job] = await queue.claim()
            await queue.ack(job, "done")
    with psycopg.connect(database) as connection:
        size = 0
        for table in ("jobs", "commits"):
            asked = f"SELECT sum(pg_column_size(one.*)) FROM {schema}.{table} AS one"
            found = connection.execute(asked.encode()).fetchone()
            assert found is not None
            size += found[0]
    assert size / JOBS <= ROW_BYTES_MAX


async def test_a_finished_job_takes_1500_bytes_with_indexes_and_pages() -> None:
    """In the long run: the server vacuums again and again, and nobody else is there whose
    transactions would keep what is gone."""
    sizes: list[int] = []
    with own_postgres() as server:
        _vacuums_when_told(server.url)
        async with penstock.open(f"{server.url}?fsync=off") as queue:
            for _ in range(ROUNDS):
                for number in range(JOBS_PER_ROUND):
                    await queue.enqueue("work", {"number": number})
                    [job] = await queue.claim()
                    await queue.ack(job, "done")
                sizes.append(_vacuumed_size(server.url))
    jobs = (ROUNDS - 1) * JOBS_PER_ROUND
    assert (sizes[-1] - sizes[0]) / jobs <= TOTAL_BYTES_MAX


def _vacuums_when_told(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")


def _vacuumed_size(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM")
        found = connection.execute(
            "SELECT sum(pg_total_relation_size(pg_class.oid))::bigint"
            " FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE nspname = 'penstock' AND relkind = 'r'"
        ).fetchone()
    assert found is not None
    return int(found[0])


async def test_vacuum_deletes_in_transactions_of_a_bounded_size(
    postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is to delete: a transaction that takes long is ended by the server."""
    monkeypatch.setattr(writing, "VACUUM_ROWS", 2)
    database, schema = postgres_server.new_database(), new_schema()
    exchange = steps._exchange
    slices: list[int] = []

    def count(connection: psycopg.Connection[Any], sent: Any, *, is_ours: bool) -> list[Any]:
        results = exchange(connection, sent, is_ours=is_ours)
        if "DELETE FROM" in sent[0].statement and ".commits" in sent[0].statement:
            assert len(sent) == 1
            slices.append(results[0][0][0])
        return results

    async with penstock.open(f"{database}?schema={schema}&fsync=off") as queue:
        for _ in range(6):
            await queue.enqueue("work")
        with psycopg.connect(database) as connection:
            connection.execute(f"UPDATE {schema}.commits SET at = at - 400000000".encode())
        monkeypatch.setattr(steps, "_exchange", count)
        report = await queue.vacuum()
    assert slices == [2, 2, 1]
    assert report.log_objects == 5
