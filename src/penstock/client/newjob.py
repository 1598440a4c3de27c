"""A job to be: what the caller says, checked before anything is sent."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from penstock.errors import InvalidJob
from penstock.kernel.commands import Submission
from penstock.kernel.job import (
    DEFAULT_ATTEMPTS,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
)
from penstock.kernel.retry import DEFAULT_RETRY, RetryPolicy

NAME_CHARACTERS_MAX: Final = 200
PRIORITY_MAX: Final = 2**31
META_BYTES_MAX: Final = 16 * 1024

_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class NewJob(Struct):
    """What `enqueue` takes, as a value: `queue.enqueue_many([NewJob("resize", {"id": 7}), …])`."""

    type: str
    payload: Any = None
    queue: str = DEFAULT_QUEUE
    id: str | None = None
    """Chosen by the caller to deduplicate; a fresh UUIDv7 otherwise."""
    key: str | None = None
    """At most one live job per key within (tenant, queue, type)."""
    unique_seconds: float = 0.0
    """Holds the key at least this long, even if the job ends before."""
    priority: int = DEFAULT_PRIORITY
    delay_seconds: float = 0.0
    run_at: float | datetime | None = None
    max_attempts: int = DEFAULT_ATTEMPTS
    retry: RetryPolicy | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    meta: dict[str, Any] | None = None
    trace: str | None = None
    codec: str | None = None


def submission(
    new: NewJob, id: str, payload: Raw, codec: str, payload_key: str | None
) -> Submission:
    """The checked form that the kernel takes."""
    check_name("type", new.type)
    check_name("queue", new.queue)
    if new.id is not None:
        check_name("id", new.id)
    if new.key is not None:
        check_text("key", new.key)
    meta = None if new.meta is None else plain_meta(new.meta)
    if new.trace is not None:
        check_characters("trace", new.trace)
    if type(new.priority) is not int or abs(new.priority) > PRIORITY_MAX:
        raise InvalidJob("priority", new.priority, f"a whole number within ±{PRIORITY_MAX}")
    if type(new.max_attempts) is not int or new.max_attempts < 1:
        raise InvalidJob("max_attempts", new.max_attempts, "it must be 1 or more")
    if new.timeout_seconds != DEFAULT_TIMEOUT_SECONDS:
        check_seconds("timeout_seconds", new.timeout_seconds)
        if new.timeout_seconds == 0:
            raise InvalidJob("timeout_seconds", 0, "an attempt needs some time")
    if new.delay_seconds != 0:
        check_seconds("delay_seconds", new.delay_seconds)
        if new.run_at is not None:
            raise InvalidJob("run_at", new.run_at, "give either run_at or delay_seconds")
    if new.unique_seconds != 0:
        check_seconds("unique_seconds", new.unique_seconds)
    if new.retry is not None and not isinstance(new.retry, RetryPolicy):
        raise InvalidJob("retry", new.retry, "it must be a penstock.RetryPolicy")
    run_at = None if new.run_at is None else epoch_seconds("run_at", new.run_at)
    return Submission(
        id, new.type, payload, codec, payload_key, new.queue, new.priority, new.delay_seconds,
        run_at, new.max_attempts, new.retry or DEFAULT_RETRY, float(new.timeout_seconds),
        new.key, new.unique_seconds, meta, new.trace,
    )  # fmt: skip


def check_name(field: str, value: object) -> None:
    """Names of jobs, queues, types and tenants: short, printable and without slashes."""
    if not isinstance(value, str):
        raise InvalidJob(field, value, "it must be a string")
    _check_name(field, value)


@lru_cache(maxsize=4_096)
def _check_name(field: str, value: str) -> None:
    check_text(field, value)
    if _FORBIDDEN.search(value):
        raise InvalidJob(field, value, "no slashes, backslashes or control characters")
    if value != value.strip():
        raise InvalidJob(field, value, "no white space at its ends")


def check_text(field: str, value: object) -> None:
    check_characters(field, value)
    assert isinstance(value, str)
    if not 1 <= len(value) <= NAME_CHARACTERS_MAX:
        raise InvalidJob(field, value, f"it must have 1 to {NAME_CHARACTERS_MAX} characters")


def check_characters(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidJob(field, value, "it must be a string")
    if _SURROGATE.search(value):
        raise InvalidJob(field, value, "half of a surrogate pair is no character")


def plain_meta(value: object) -> dict[str, Any]:
    """What will be read back, and nobody's but the queue's.

    One entry that can't be stored would take everybody's batch along.
    """
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise InvalidJob("meta", value, "it must be a dict with strings as keys")
    try:
        data = msgspec.json.encode(value)
        if len(data) > META_BYTES_MAX:
            raise InvalidJob("meta", value, f"at most {META_BYTES_MAX:,} bytes; use the payload")
        return msgspec.json.decode(data, type=dict[str, Any])
    except InvalidJob:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJob("meta", value, f"JSON can't carry it: {error}") from None


def check_number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidJob(field, value, "it must be a finite number")
    return value


def check_seconds(field: str, value: object) -> None:
    if check_number(field, value) < 0:
        raise InvalidJob(field, value, "it must not be negative")


def epoch_seconds(field: str, value: float | datetime) -> float:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidJob(field, value, "a datetime needs a time zone, e.g. datetime.UTC")
        return value.timestamp()
    check_seconds(field, value)
    return float(value)
