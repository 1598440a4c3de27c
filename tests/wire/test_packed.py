"""Small JSON as fewer bytes, and back."""

from __future__ import annotations

import pytest

from penstock.errors import Corrupt
from penstock.wire.packed import PACKED_BYTES_MAX, pack, unpack

COMMIT = (
    b'{"format":2,"commit":6000,"commit_id":"ecafab561f5e39c5b70bce34b46654c0","writer":'
    b'"ddeeffad80a07eb6004001f93f593fbb","epoch":0,"at":1794968931.517551,"events":1,"body":'
    b'"e5b5bf595cb9a8976e56a67ce05ba2a1","previous":"","digest":"67f87b608fa1c4150018b77b60975e83"'
    b'}\n{"event":"completed","position":6000000000,"at":1794968931.517551,"tenant":"default",'
    b'"queue":"default","type":"work","id":"01a1ec7c-2d2b-7b27-b8f7-a95f44225fb0","life":'
    b'2000000000,"attempt":1,"failures":0,"enqueued_at":1794968923.4358,"result":"done"}\n'
)
STORED = bytes.fromhex(
    "019592cb6a42510c45ffc5f995f3caeb73929c6452a8d0497fdfa3d26ae14a35904906c90a7bedba88d7738f"
    "3e866baa01d684e8e26054cca30f1b8830bc3cfa3a6744a64e2e5a286c2d1ba5d4949eb0da6cc76719822cbd"
    "1ea11240ddd33bc0c0d606701365210c4045f22860dab43ed71f29991606a7561f15160c1b5d264210dc0fff"
    "078ae5a79e12bf93f1f7e9ebe39eb3d670f2adcd661b59a3cd386953811ca335482bbf26b43f1cafd970236d"
    "fd383af03dfec33c7dc67afd0c"
)
"""As it was packed once: what was stored can be read for ever."""


def test_a_commit_of_one_event_takes_less_than_half() -> None:
    assert len(pack(COMMIT)) < len(COMMIT) / 2
    assert unpack("a commit", pack(COMMIT)) == COMMIT


def test_what_was_packed_once_can_be_read() -> None:
    assert unpack("a commit", STORED) == COMMIT


@pytest.mark.parametrize("data", [b"", b"{}", b"{" + b"x" * PACKED_BYTES_MAX])
def test_what_would_gain_nothing_is_left_as_it_is(data: bytes) -> None:
    assert pack(data) == data


@pytest.mark.parametrize("data", [b"\x00", b"\x01", b"\x01 is no mark of ours"])
def test_what_looks_packed_comes_back_all_the_same(data: bytes) -> None:
    assert unpack("bytes", pack(data)) == data


@pytest.mark.parametrize("size", [1, 2, 50])
def test_what_is_cut_off_is_corrupt(size: int) -> None:
    with pytest.raises(Corrupt):
        unpack("a commit", pack(COMMIT)[:size])


def test_what_was_altered_is_corrupt() -> None:
    packed = pack(COMMIT)
    with pytest.raises(Corrupt):
        unpack("a commit", packed[:1] + b"\xff" * len(packed))
