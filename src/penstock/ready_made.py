"""Clients that an application has already: which library one is from, and which are taken."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from penstock.address import OWN_OBJECTS, OWN_RECORDS
from penstock.errors import InvalidInput

Library: TypeAlias = Literal["obstore", "redis", "psycopg", "boto3", "own"]
"""`own` is a store that somebody wrote to the port, of objects or of records."""

TAKEN: Final = (
    "redis-py's Redis, RedisCluster and ConnectionPool, psycopg's Connection and ConnectionPool, "
    "the async ones of both, boto3's session, client or resource of S3 (with the URL of the "
    "bucket), obstore's S3Store, GCSStore and AzureStore, or a store of your own with put, get, "
    "delete and list"
)
_CLIENTS: Final[dict[tuple[str, str], Library]] = {
    ("redis", "Redis"): "redis",
    ("redis", "RedisCluster"): "redis",
    ("redis", "ConnectionPool"): "redis",
    ("psycopg", "Connection"): "psycopg",
    ("psycopg", "AsyncConnection"): "psycopg",
    ("psycopg_pool", "ConnectionPool"): "psycopg",
    ("psycopg_pool", "AsyncConnectionPool"): "psycopg",
    ("boto3", "Session"): "boto3",
    ("boto3", "ServiceResource"): "boto3",
    ("botocore", "BaseClient"): "boto3",
    ("obstore", "ObjectStoreMethods"): "obstore",
}
"""By the names of package and class, so that no library is loaded to ask."""
_PORT: Final = ("put", "get", "delete", "list")
_RECORD_PORT: Final = "turn"


def library_of(store: Any) -> Library:
    """Whose client it is; one clear error for what can't be taken."""
    kinds = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(store).__mro__]
    # The clients of aiobotocore look like boto3's, but answer with coroutines.
    if not any(package == "aiobotocore" for package, _ in kinds):
        known = next((_CLIENTS[kind] for kind in kinds if kind in _CLIENTS), None)
        if known is not None:
            return known
        if hasattr(store, _RECORD_PORT) or all(hasattr(store, name) for name in _PORT):
            return "own"
    if isinstance(store, str):
        raise InvalidInput("store= takes a client or a store; a URL is the first argument of open")
    kind = type(store)
    raise InvalidInput(
        f"store= can't take a {kind.__module__}.{kind.__qualname__}; it takes {TAKEN}"
    )


def keeps_records(store: Any) -> bool:
    """Whether it is a store of records, or a client of a server that can be one."""
    if store is None:
        return False
    return library_of(store) in ("redis", "psycopg") or hasattr(store, _RECORD_PORT)


def kind_of(store: Any) -> str | None:
    """Whose options count beside a store of the caller's own; None: those of the URL."""
    library = None if store is None else library_of(store)
    match library:
        case None | "boto3":
            return None
        case "redis":
            return "redis"
        case "psycopg":
            return "postgresql"
        case _:
            return OWN_RECORDS if keeps_records(store) else OWN_OBJECTS
