"""Redis and PostgreSQL come up, and give whoever asks a place of its own."""

from __future__ import annotations

from pathlib import Path

import psycopg
import redis

from tests.servers.postgres import Postgres
from tests.servers.redis import Redis, own_redis


def test_redis_keeps_until_it_is_emptied(tmp_path: Path) -> None:
    """On a server of its own: the others' tests run on the shared one just now."""
    with own_redis(tmp_path) as own, redis.Redis.from_url(own.url) as client:
        client.set("key", "value")
        assert client.get("key") == b"value"
        Redis(own.url).empty()
        assert client.get("key") is None


def test_postgres_gives_empty_databases(postgres_server: Postgres) -> None:
    first, second = postgres_server.new_database(), postgres_server.new_database()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE jobs (id text)")
    with psycopg.connect(second) as connection:
        tables = connection.execute("SELECT 1 FROM pg_tables WHERE tablename = 'jobs'")
        assert tables.fetchall() == []
