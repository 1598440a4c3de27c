"""Payloads of imports, checked many at once: as strict as one by one."""

from __future__ import annotations

import pytest
from msgspec import Raw

from penstock.client.rows import inline_payload, inline_payloads
from penstock.errors import PayloadInvalid, PayloadTooLarge

BYTES_MAX = 40


@pytest.mark.parametrize(
    "payloads",
    [
        [],
        ["1", '{"a": "\\n"}', '"text"', " [1] "],
        [b"1", b"[2]"],
        ["1", None],
        ["[1,\n2]", "3"],
        ["[1,\r2]", "3"],
        ['"Gr\u00fc\u00dfe"', "{}"],
    ],
)
def test_what_is_taken_one_by_one_is_taken_at_once(payloads: list[str | bytes | None]) -> None:
    one_by_one = [bytes(inline_payload(each, "json", BYTES_MAX)) for each in payloads]
    at_once = inline_payloads(payloads, "json", BYTES_MAX)
    assert [bytes(each) for each in at_once] == one_by_one
    assert all(isinstance(each, Raw) for each in at_once)


@pytest.mark.parametrize(
    "payloads",
    [["1", "{oops"], ["1", ""], ["", "1\n2"], ["1\n2"], ["1 2"], [b"\xff"], ["1", "\ud800"]],
)
def test_what_is_refused_one_by_one_is_refused_at_once(payloads: list[str | bytes | None]) -> None:
    with pytest.raises(PayloadInvalid):
        inline_payloads(payloads, "json", BYTES_MAX)


def test_one_that_is_too_large_is_refused_among_many() -> None:
    with pytest.raises(PayloadTooLarge):
        inline_payloads(["1", f'"{"x" * BYTES_MAX}"'], "json", BYTES_MAX)
