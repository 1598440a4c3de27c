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
    PRIORITY_MAX,
    check_characters,
    check_name,
    check_number,
    check_seconds,
    check_text,
    plain_meta,
)
from penstock.errors import InvalidInput, InvalidJob, PayloadInvalid, PayloadTooLarge
from penstock.kernel.job import DEFAULT_CODEC, DEFAULT_TIMEOUT_SECONDS
from penstock.kernel.manifest import Row, SegmentRecord
from penstock.kernel.retry import DEFAULT_RETRY, RetryPolicy
from penstock.wire.codecs import to_inline
from penstock.wire.imports import Group, encode_rows

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
        rows = self._groups.get(group)
        if rows is None:
            check_group(group)
            rows = self._groups[group] = []
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


def check_run(run: object) -> None:
    if not isinstance(run, str) or _RUN.fullmatch(run) is None:
        raise InvalidInput(
            f"run={run!r} can't be used: 1 to 100 letters, digits, hyphens and underscores"
        )


def check_batch(query: object, batch: object) -> None:
    """A streaming query and its batch are named together or not at all."""
    if (query is None) != (batch is None):
        raise InvalidInput("a batch needs its query and a query its batch")
    if query is not None:
        check_text("query", query)
        if type(batch) is not int or batch < 0:
            raise InvalidInput(f"batch={batch!r} can't be used: a whole number, 0 or more")


def check_group(group: Group) -> None:
    tenant, queue, type_, priority = group
    check_name("tenant", tenant)
    check_name("queue", queue)
    check_name("type", type_)
    if type(priority) is not int or abs(priority) > PRIORITY_MAX:
        raise InvalidJob("priority", priority, f"a whole number within ±{PRIORITY_MAX}")


def inline_payload(payload: str | bytes | None, codec: str, bytes_max: int) -> Raw:
    """A payload as it stands in a line; what is called JSON has to be JSON."""
    if payload is None:
        return _NULL
    try:
        data = payload.encode() if isinstance(payload, str) else payload
    except UnicodeEncodeError as error:
        raise PayloadInvalid(codec, str(error)) from None
    if len(data) > bytes_max:
        raise PayloadTooLarge("payload", len(data), bytes_max)
    if codec != DEFAULT_CODEC:
        return to_inline(data, codec)
    try:
        if data is payload:
            data.decode()  # JSON is text: whatever else is in there would surface much later
        raw = _raw_decoder.decode(data)
        if b"\n" in data or b"\r" in data:
            raw = Raw(msgspec.json.format(bytes(raw), indent=-1))
    except (ValueError, msgspec.MsgspecError) as error:
        raise PayloadInvalid(codec, str(error)) from None
    return raw


def inline_payloads(
    payloads: Sequence[str | bytes | None], codec: str, bytes_max: int
) -> list[Raw]:
    """The same for many: at once if all are JSON in one line each, as they nearly always are."""
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
    max_attempts: int,
    timeout_seconds: float,
    retry: RetryPolicy | None,
    meta: dict[str, Any] | None,
    trace: str | None,
    id: str | None,
    key: str | None,
    unique_seconds: float,
) -> Row:
    if run_at is not None:
        check_number("run_at", run_at)
    if type(max_attempts) is not int or max_attempts < 1:
        raise InvalidJob("max_attempts", max_attempts, "it must be 1 or more")
    if timeout_seconds != DEFAULT_TIMEOUT_SECONDS:
        check_seconds("timeout_seconds", timeout_seconds)
        if timeout_seconds == 0:
            raise InvalidJob("timeout_seconds", 0, "an attempt needs some time")
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise InvalidJob("retry", retry, "it must be a penstock.RetryPolicy")
    if meta is not None:
        meta = plain_meta(meta)
    if trace is not None:
        check_characters("trace", trace)
    if id is not None:
        check_name("id", id)
    if key is not None:
        check_text("key", key)
    if unique_seconds != 0:
        check_seconds("unique_seconds", unique_seconds)
    return Row(
        payload, run_at, codec, max_attempts, retry or DEFAULT_RETRY, float(timeout_seconds), meta,
        trace, id, key, unique_seconds,
    )  # fmt: skip
