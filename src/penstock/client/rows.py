"""Rows on their way into import objects: checked, gathered by group, cut into objects.

Millions of them pass here, so a row that has only a payload costs a few microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.client.newjob import (
    check_attempts,
    check_name,
    check_priority,
    check_retry,
    check_text,
    check_timeout,
    check_trace,
    epoch_seconds,
    plain_meta,
)
from penstock.errors import InvalidInput, InvalidJob, PayloadInvalid, PayloadTooLarge
from penstock.kernel.job import DEFAULT_CODEC, NO_SECONDS
from penstock.kernel.manifest import Row, SegmentRecord
from penstock.kernel.plain import WHOLE_MAX, is_a, plain_seconds, plain_text, plain_whole
from penstock.kernel.retry import RetryPolicy
from penstock.wire.codecs import to_inline
from penstock.wire.imports import Group, encode_rows
from penstock.wire.values import one_line, read

OBJECT_BYTES_MAX: Final = 8 * 1024 * 1024
"""An object is cut when its rows reach about this: it is read whole to get at one chunk."""
ROW_BYTES: Final = 24
"""About what a line has besides its payload."""

_RUN: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NULL: Final = Raw(b"null")
_raw_decoder: Final = msgspec.json.Decoder(Raw)


class RowBuffer:
    """Rows until they are enough for an object."""

    def __init__(self, object_bytes_max: int = OBJECT_BYTES_MAX) -> None:
        self.has_identities = False
        self.rows = 0
        """How many there were in all."""
        self._object_bytes_max = object_bytes_max
        self._groups: dict[Group, list[Row]] = {}
        self._size_bytes = 0

    def add(self, group: Group, row: Row) -> bool:
        """Whether there are enough of them now."""
        try:
            # A subclass of `str` is equal to its plain value, so it finds these rows, too.
            rows = self._groups.get(group)
        except Exception:  # noqa: BLE001  # it can't be hashed or compared, so it is no plain name
            rows = None
        if rows is None:
            rows = self._groups.setdefault(check_group(group), [])
        rows.append(row)
        self.rows += 1
        self._size_bytes += ROW_BYTES + len(row.payload)
        if row.id is not None or row.key is not None:
            self.has_identities = True
        return self._size_bytes >= self._object_bytes_max

    def cut(self) -> tuple[bytes, list[SegmentRecord]] | None:
        """What has gathered, as an object; None if nothing has."""
        if not self._groups:
            return None
        groups, self._groups, self._size_bytes = self._groups, {}, 0
        return encode_rows(sorted(groups.items()))


def check_run(run: object) -> str:
    name = plain_text("run", run)
    if _RUN.fullmatch(name) is None:
        raise InvalidJob("run", name, "1 to 100 letters, digits, hyphens and underscores")
    return name


def check_batch(query: object, batch: object) -> tuple[str | None, int | None]:
    """A streaming query and its batch are named together or not at all."""
    if (query is None) != (batch is None):
        raise InvalidInput("a batch needs its query and a query its batch")
    if query is None:
        return None, None
    rule = "a whole number, 0 or more"
    return check_text("query", query), plain_whole("batch", batch, 0, WHOLE_MAX, rule)


def check_group(group: Group) -> Group:
    tenant, queue, type_, priority = group
    return (
        check_name("tenant", tenant),
        check_name("queue", queue),
        check_name("type", type_),
        check_priority(priority),
    )


def inline_payload(payload: str | bytes | Raw | None, codec: str, bytes_max: int) -> Raw:
    """A payload as it stands in a line; what is called JSON has to be JSON."""
    if payload is None:
        return _NULL
    if is_a(payload, Raw):
        return _readable(bytes(payload), codec)
    if not is_a(payload, str) and not is_a(payload, bytes):
        raise PayloadInvalid(codec, "a row's payload is JSON text, or bytes")
    try:
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
    except UnicodeEncodeError as error:
        raise PayloadInvalid(codec, str(error)) from None
    if len(data) > bytes_max:
        raise PayloadTooLarge("payload", len(data), bytes_max)
    if codec != DEFAULT_CODEC:
        return to_inline(data, codec)
    return _readable(data, codec)


def _readable(data: bytes, codec: str) -> Raw:
    try:
        read(data)
        return _raw_decoder.decode(one_line(data))
    except (ValueError, msgspec.MsgspecError) as error:
        raise PayloadInvalid(codec, str(error)) from None


def inline_payloads(
    payloads: Sequence[str | bytes | None], codec: str, bytes_max: int
) -> list[Raw]:
    """The same for many: at once if all are JSON in one line each, as they nearly always are.

    Each is read once more when it is added.
    """
    raws = _one_line_each(payloads) if codec == DEFAULT_CODEC else None
    if raws is None or max(map(len, raws), default=0) > bytes_max:
        return [inline_payload(payload, codec, bytes_max) for payload in payloads]
    return raws


def _one_line_each(payloads: Sequence[Any]) -> list[Raw] | None:
    try:
        if payloads and isinstance(payloads[0], bytes):
            data = b"\n".join(payloads)
            data.decode()
        else:
            data = "\n".join(payloads).encode()
        raws = _raw_decoder.decode_lines(data)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None  # one of them is null, or not JSON: each is looked at by itself
    is_plain = len(raws) == len(payloads) == data.count(b"\n") + 1 and b"\r" not in data
    return raws if is_plain else None


def checked_row(
    payload: Raw,
    run_at: float | None,
    codec: str,
    max_attempts: int | None,
    timeout_seconds: float | None,
    retry: RetryPolicy | None,
    meta: dict[str, Any] | None,
    trace: str | None,
    id: str | None,
    key: str | None,
    unique_seconds: float,
) -> Row:
    return Row(
        payload,
        None if run_at is None else epoch_seconds("run_at", run_at),
        codec,
        None if max_attempts is None else check_attempts(max_attempts),
        None if retry is None else check_retry(retry),
        None if timeout_seconds is None else check_timeout(timeout_seconds),
        None if meta is None else plain_meta(meta),
        None if trace is None else check_trace(trace),
        None if id is None else check_name("id", id),
        None if key is None else check_text("key", key),
        0.0 if unique_seconds is NO_SECONDS else plain_seconds("unique_seconds", unique_seconds),
    )
