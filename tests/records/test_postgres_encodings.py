"""Names are sent as UTF-8, whatever the server, the URL or the environment would have."""

from __future__ import annotations

import uuid

import psycopg
import pytest

import penstock
from penstock.errors import InvalidInput
from penstock.testing.conformance.backend.steps import claim_one, found
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture
def ascii_database(postgres_server: Postgres) -> str:
    """As `initdb` makes them where no locale is set."""
    name = f"database_{uuid.uuid4().hex}"
    with psycopg.connect(f"{postgres_server.address}/postgres", autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
            " TEMPLATE template0".encode()
        )
    return f"{postgres_server.address}/{name}"


async def test_a_database_without_an_encoding_will_do(ascii_database: str) -> None:
    async with penstock.open(ascii_database) as queue:
        await queue.enqueue("größe", {"für": "Ä"}, id="é漢", key="ß")
        assert (await found(queue, "é漢")).type == "größe"
        job = await claim_one(queue)
        assert (job.id, job.payload) == ("é漢", {"für": "Ä"})


@pytest.mark.parametrize("place", ["url", "environment"])
async def test_another_encoding_of_the_client_changes_no_name(
    place: str, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgres_server.new_database()
    odd = f"{database}?client_encoding=latin1" if place == "url" else database
    if place == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    async with penstock.open(odd) as queue:
        await queue.enqueue("größe", id="é")
    monkeypatch.delenv("PGCLIENTENCODING", raising=False)
    async with penstock.open(database) as queue:
        assert (await found(queue, "é")).type == "größe"


@pytest.mark.parametrize("encoding", ["latin1", "sql_ascii"])
async def test_a_connection_with_another_encoding_is_refused(
    encoding: str, postgres_server: Postgres
) -> None:
    database = postgres_server.new_database()
    async with (
        penstock.open(database) as queue,
        await psycopg.AsyncConnection.connect(database, client_encoding=encoding) as connection,
    ):
        await connection.execute("CREATE TABLE orders (number integer)")
        with pytest.raises(InvalidInput, match="client_encoding"):
            await queue.enqueue("größe", id="é", connection=connection)
        await connection.commit()
        assert (await (await connection.execute("TABLE orders")).fetchall()) == []
