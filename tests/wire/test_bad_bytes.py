"""Bytes that are not what was written are told apart from those that are, and from newer ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.ledger.log.floor import read_floor
from penstock.engines.ledger.marker import read_marker
from penstock.engines.ledger.single.document import decode_document
from penstock.errors import Corrupt, FormatError, NewerFormat
from penstock.ports.store import Create
from penstock.stores.memory import MemoryStore
from penstock.wire.commit import decode_commit, decode_header
from penstock.wire.level import FORMAT_LEVEL, digest, signed
from penstock.wire.snapshot import decode_checkpoint
from tests.wire.golden_queue import GOLDEN

FOLDER = GOLDEN / f"level-{FORMAT_LEVEL}"
Decode = Callable[[bytes], Any]


def _newest(pattern: str) -> bytes:
    return max(FOLDER.glob(pattern)).read_bytes()


OBJECTS: dict[str, tuple[bytes, Decode]] = {
    "commit": (
        (FOLDER / "log/log/00000000000000000002.jsonl").read_bytes(),
        lambda data: decode_commit("log/2", data),
    ),
    "checkpoint": (
        _newest("log/checkpoint/*"),
        lambda data: decode_checkpoint("checkpoint/9", data),
    ),
    "document": (_newest("single/queue.json"), decode_document),
}


@pytest.mark.parametrize(("data", "decode"), OBJECTS.values(), ids=OBJECTS)
def test_a_truncated_object_is_corrupt(data: bytes, decode: Decode) -> None:
    decode(data)
    for end in {*range(0, len(data), 37), len(data) - 1, len(data) - 2}:
        with pytest.raises(Corrupt):
            decode(data[:end])


@pytest.mark.parametrize(("data", "decode"), OBJECTS.values(), ids=OBJECTS)
def test_a_flipped_bit_is_seen(data: bytes, decode: Decode) -> None:
    for index in range(0, len(data), 1 + len(data) // 2000):
        altered = bytearray(data)
        altered[index] ^= 1 << index % 8
        with pytest.raises(FormatError):
            decode(bytes(altered))


@pytest.mark.parametrize(("data", "decode"), OBJECTS.values(), ids=OBJECTS)
def test_something_appended_is_seen(data: bytes, decode: Decode) -> None:
    with pytest.raises(Corrupt):
        decode(data + b"{}\n")


@pytest.mark.parametrize("decode", [pair[1] for pair in OBJECTS.values()], ids=OBJECTS)
@given(garbage=st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_garbage_is_corrupt(decode: Decode, garbage: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(garbage)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\n", b"null", b"[]", b"{}", b'{"format":1}', b"\xff\xfe", b"<html>503</html>"],
)
@pytest.mark.parametrize("decode", [pair[1] for pair in OBJECTS.values()], ids=OBJECTS)
def test_what_servers_send_instead_is_corrupt(decode: Decode, garbage: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(garbage)


def test_a_newer_commit_is_told_to_upgrade_for() -> None:
    line, _, body = OBJECTS["commit"][0].partition(b"\n")
    newer = _of_level(line, FORMAT_LEVEL + 1) + b"\n" + body
    with pytest.raises(NewerFormat, match="upgrade penstock") as raised:
        decode_commit("log/2", newer)
    assert (raised.value.level, raised.value.known) == (FORMAT_LEVEL + 1, FORMAT_LEVEL)


def test_a_newer_commit_with_other_fields_is_told_to_upgrade_for() -> None:
    line = signed(msgspec.json.encode({"format": FORMAT_LEVEL + 1, "number": 2}))
    with pytest.raises(NewerFormat):
        decode_header("log/2", line + b"\n")
    with pytest.raises(NewerFormat):
        decode_commit("log/2", line + b"\n")


def test_a_newer_checkpoint_is_told_to_upgrade_for() -> None:
    line, _, body = OBJECTS["checkpoint"][0].partition(b"\n")
    with pytest.raises(NewerFormat):
        decode_checkpoint("checkpoint/9", _of_level(line, FORMAT_LEVEL + 1) + b"\n" + body)
    other = signed(msgspec.json.encode({"format": FORMAT_LEVEL + 1, "number": 2}))
    with pytest.raises(NewerFormat):
        decode_checkpoint("checkpoint/9", other + b"\n")


def test_a_newer_document_is_told_to_upgrade_for() -> None:
    data = OBJECTS["document"][0]
    text = data.rpartition(b',\n"digest": "')[0]
    text = text.replace(
        f'"format": {FORMAT_LEVEL},'.encode(), f'"format": {FORMAT_LEVEL + 1},'.encode(), 1
    )
    newer = text + b',\n"digest": "' + digest(text).encode() + b'"\n}\n'
    with pytest.raises(NewerFormat):
        decode_document(newer)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", Corrupt),
        (b"{", Corrupt),
        (b"\xff", Corrupt),
        (b'{"name": "not ours"}', Corrupt),
        (b'{"format":99,"layout":"log","nonce":""}', NewerFormat),
        (b'{"format":99,"arrangement":"tree"}', NewerFormat),
    ],
)
async def test_a_bad_marker_is_told_apart(data: bytes, error: type[FormatError]) -> None:
    store = MemoryStore()
    await store.put("penstock.json", data, Create())
    with pytest.raises(error, match=r"penstock\.json"):
        await read_marker(store)


async def test_a_bad_floor_is_never_believed() -> None:
    good = (FOLDER / "log/floor").read_bytes()
    for index in range(len(good)):
        altered = bytearray(good)
        altered[index] ^= 1 << index % 8
        store = MemoryStore()
        await store.put("floor", bytes(altered), Create())
        with pytest.raises(Corrupt):
            await read_floor(store)


def test_golden_files_are_where_they_should_be() -> None:
    assert isinstance(FOLDER, Path)
    assert {path.name for path in FOLDER.iterdir()} == {"log", "single"}


def _of_level(line: bytes, level: int) -> bytes:
    """The same signed line, written at another level."""
    fields = msgspec.json.decode(line)
    del fields["digest"]
    return signed(msgspec.json.encode({**fields, "format": level}))
