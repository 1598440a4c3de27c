"""Records in PostgreSQL."""

from importlib.util import find_spec

from penstock.errors import MissingExtra

if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
    raise MissingExtra("postgres", "a queue in PostgreSQL")
