"""How much room a job takes once it is done, by the bytes of its rows."""

from __future__ import annotations

import psycopg
import pytest

import penstock
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")

JOBS = 20
ROW_BYTES_MAX = 1_200
"""Of the record and of three commits, each of one event; indexes and pages come on top."""


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
