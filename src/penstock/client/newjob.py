"""A job to be: what the caller says, checked before anything is sent."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypedDict

from msgspec import Raw, Struct

from penstock.errors import InvalidJob
from penstock.kernel.commands import Submission
from penstock.kernel.job import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    NO_SECONDS,
)
from penstock.kernel.plain import (
    ATTEMPTS_MAX,
    EPOCH_SECONDS_MAX,
    is_a,
    plain_number,
    plain_seconds,
    plain_text,
    plain_whole,
)
from penstock.kernel.retry import RetryPolicy
from penstock.wire.values import decode_meta

NAME_CHARACTERS_MAX: Final = 200
PRIORITY_MAX: Final = 2**31 - 1
TRACE_CHARACTERS_MAX: Final = 4_096
META_BYTES_MAX: Final = 16 * 1024

_PRIORITIES: Final = f"a whole number within ±{PRIORITY_MAX}"
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")


class NewJob(Struct):
    """What `enqueue` takes, as a value: `queue.enqueue_many([NewJob("resize", {"id": 7}), …])`."""

    type: str
    payload: Any = None
    queue: str = DEFAULT_QUEUE
    id: str | None = None
    """Chosen by the caller to deduplicate; a fresh UUIDv7 otherwise."""
    key: str | None = None
    """At most one live job per key within (tenant, queue, type)."""
    unique_seconds: float = NO_SECONDS
    """Holds the key at least this long, even if the job ends before."""
    priority: int = DEFAULT_PRIORITY
    delay_seconds: float = NO_SECONDS
    run_at: float | datetime | None = None
    max_attempts: int | None = None
    """None, as of `retry` and `timeout_seconds`: what the queue's settings say."""
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    meta: dict[str, Any] | None = None
    trace: str | None = None
    codec: str | None = None
    operation: str | None = None
    """The call that hands it in, where that is not the one of the whole list."""


class JobOptions(TypedDict, total=False):
    """What `enqueue`, `call` and tasks take besides the job itself, for type checkers."""

    queue: str
    id: str | None
    unique_seconds: float
    priority: int
    delay_seconds: float
    run_at: float | datetime | None
    max_attempts: int | None
    retry: RetryPolicy | None
    meta: dict[str, Any] | None
    trace: str | None
    codec: str | None
    operation: str | None


class CallOptions(JobOptions, total=False):
    key: str | None


def submission(
    new: NewJob,
    id: str,
    payload: Raw,
    codec: str,
    payload_key: str | None,
    operation: str | None = None,
) -> Submission:
    """The checked form that the kernel takes, of plain values alone."""
    if new.run_at is not None and plain_seconds("delay_seconds", new.delay_seconds):
        raise InvalidJob("run_at", new.run_at, "give either run_at or delay_seconds")
    return Submission(
        id if new.id is None else check_name("id", id),
        check_name("type", new.type),
        payload,
        codec,
        payload_key,
        check_name("queue", new.queue),
        # Nearly all leave the rest as it is: a comparison is quicker than a check. It goes by
        # identity, since of an array or the like not even equality can be asked.
        DEFAULT_PRIORITY if new.priority is DEFAULT_PRIORITY else check_priority(new.priority),
        0.0
        if new.delay_seconds is NO_SECONDS
        else plain_seconds("delay_seconds", new.delay_seconds),
        None if new.run_at is None else epoch_seconds("run_at", new.run_at),
        None if new.max_attempts is None else check_attempts(new.max_attempts),
        None if new.retry is None else check_retry(new.retry),
        None if new.timeout_seconds is None else check_timeout(new.timeout_seconds),
        None if new.key is None else check_text("key", new.key),
        0.0
        if new.unique_seconds is NO_SECONDS
        else plain_seconds("unique_seconds", new.unique_seconds),
        None if new.meta is None else plain_meta(new.meta),
        None if new.trace is None else check_trace(new.trace),
        None if operation is None else plain_text("operation", operation),
    )


def check_priority(value: object) -> int:
    return plain_whole("priority", value, -PRIORITY_MAX, PRIORITY_MAX, _PRIORITIES)


def check_attempts(value: object) -> int:
    return plain_whole("max_attempts", value, 1, ATTEMPTS_MAX, "it must be 1 or more")


def check_timeout(value: object) -> float:
    seconds = plain_seconds("timeout_seconds", value)
    if seconds == 0:
        raise InvalidJob("timeout_seconds", 0, "an attempt needs some time")
    return seconds


def check_retry(value: object) -> RetryPolicy:
    if not is_a(value, RetryPolicy):
        raise InvalidJob("retry", value, "it must be a penstock.RetryPolicy")
    if type(value) is RetryPolicy:
        return value
    return RetryPolicy(value.initial_seconds, value.multiplier, value.max_seconds, value.jitter)


def check_trace(value: object) -> str:
    trace = plain_text("trace", value)
    if len(trace) > TRACE_CHARACTERS_MAX:
        raise InvalidJob("trace", value, f"at most {TRACE_CHARACTERS_MAX:,} characters")
    return trace


def check_name(field: str, value: object) -> str:
    """Names of jobs, queues, types and tenants: short, printable and without slashes."""
    name = value if type(value) is str else plain_text(field, value)
    _check_name(field, name)
    return name


@lru_cache(maxsize=4_096)
def _check_name(field: str, value: str) -> None:
    check_text(field, value)
    if _FORBIDDEN.search(value):
        raise InvalidJob(field, value, "no slashes, backslashes or control characters")
    if value != value.strip():
        raise InvalidJob(field, value, "no white space at its ends")


def check_text(field: str, value: object) -> str:
    text = plain_text(field, value)
    if not 1 <= len(text) <= NAME_CHARACTERS_MAX:
        raise InvalidJob(field, value, f"it must have 1 to {NAME_CHARACTERS_MAX} characters")
    return text


def plain_meta(value: object) -> dict[str, Any]:
    """What will be read back, and nobody's but the queue's."""
    if not is_a(value, dict) or not all(is_a(name, str) for name in value):
        raise InvalidJob("meta", value, "it must be a dict with strings as keys")
    try:
        size_bytes, meta = decode_meta(value)
    except ValueError as error:
        raise InvalidJob("meta", value, f"JSON can't carry it: {error}") from None
    if size_bytes > META_BYTES_MAX:
        raise InvalidJob("meta", value, f"at most {META_BYTES_MAX:,} bytes; use the payload")
    return meta


def epoch_seconds(field: str, value: object) -> float:
    if is_a(value, datetime):
        if value.tzinfo is None:
            raise InvalidJob(field, value, "a datetime needs a time zone, e.g. datetime.UTC")
        value = value.timestamp()
    seconds = plain_number(field, value)
    if not 0 <= seconds <= EPOCH_SECONDS_MAX:
        raise InvalidJob(field, value, "seconds since 1970, up to the year 9999")
    return float(seconds)
