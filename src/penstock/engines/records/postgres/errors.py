"""What the server's errors mean."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from penstock.errors import (
    PenstockError,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreUnavailable,
)

CONFLICTS: Final = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,
)
"""Somebody else was first, or two stood in each other's way: to be decided again."""
_AWAY: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
    errors.QueryCanceled,
    errors.LockNotAvailable,
    errors.ReadOnlySqlTransaction,
)
"""Not now: the server, which may be one that another is about to take over from, or somebody else's
transaction that lasts."""
_DENIED: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
    "is not permitted to log in",
)
"""When a connection is refused there is no code, only what the server says."""
_STARTING: Final = (
    "the database system is starting up",
    "the database system is not yet accepting connections",
    "the database system is in recovery mode",
)


def translated(name: str, error: psycopg.Error) -> PenstockError:
    cause = str(error).strip()
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreDenied(name, "", cause)
    if isinstance(error, errors.DiskFull):
        return StoreFull(name, "")
    if isinstance(error, _AWAY) or is_conflict(error):
        return StoreUnavailable(name, "", cause)
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return StoreMissing(name, cause)
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        return _refused(name, cause)
    return StoreError(name, "", cause)


def is_conflict(error: BaseException) -> bool:
    return isinstance(error, CONFLICTS)


def is_starting(cause: str) -> bool:
    return any(reason in cause for reason in _STARTING)


def _refused(name: str, cause: str) -> PenstockError:
    if any(reason in cause for reason in _DENIED) or 'role "' in cause:
        return StoreDenied(name, "", cause)
    if 'database "' in cause and "does not exist" in cause:
        return StoreMissing(name, cause)
    return StoreUnavailable(name, "", cause)
