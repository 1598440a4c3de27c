"""Codecs: how payloads and results become bytes, by a name that travels beside them.

What is stored is always one JSON value, so that the log stays readable: the JSON codec's output as
it is, everybody else's in base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from penstock.errors import Corrupt, PayloadInvalid
from penstock.kernel.job import ABSENT, DEFAULT_CODEC


class Codec(Protocol):
    @property
    def name(self) -> str:
        """Stored with every value; must never change its meaning."""
        ...

    def encode(self, value: Any) -> bytes: ...

    def decode(self, data: bytes) -> Any: ...


class JSONCodec:
    name = "json"

    def __init__(self) -> None:
        self.encode = msgspec.json.Encoder().encode
        self.decode = msgspec.json.Decoder().decode


class MessagePackCodec:
    name = "msgpack"

    def __init__(self) -> None:
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder().decode


class RawCodec:
    """Bytes as they are."""

    name = "raw"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"expected bytes, got {type(value).__name__}")
        return bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data


class Codecs:
    """The codecs that one queue knows, its own and those the caller brings."""

    def __init__(self, more: Iterable[Codec] = ()) -> None:
        self._json = JSONCodec()
        built_in: list[Codec] = [self._json, MessagePackCodec(), RawCodec()]
        self._by_name: dict[str, Codec] = {codec.name: codec for codec in (*built_in, *more)}

    def encode(self, value: Any, name: str | None = None) -> tuple[bytes, str]:
        """The value as bytes, and the codec's name. Without one: bytes stay bytes, else JSON."""
        if name is None:
            name = "raw" if isinstance(value, bytes | bytearray | memoryview) else DEFAULT_CODEC
        codec = self._by_name.get(name)
        if codec is None:
            raise PayloadInvalid(name, f"no such codec; known are {', '.join(self._by_name)}")
        try:
            return codec.encode(value), name
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise PayloadInvalid(name, str(error)) from error

    def decode(self, data: bytes, name: str) -> Any:
        codec = self._by_name.get(name)
        if codec is None:
            raise Corrupt(
                f"codec {name!r}", f"open the queue with it; known are {', '.join(self._by_name)}"
            )
        return codec.decode(data)

    def decode_inline(self, inline: Raw, name: str) -> Any:
        if inline is ABSENT:
            return None
        if name == DEFAULT_CODEC:
            return self._json.decode(inline)
        return self.decode(b64decode(msgspec.json.decode(inline, type=str)), name)


def to_inline(data: bytes, name: str) -> Raw:
    """Encoded bytes in the form in which they stand in an event."""
    if name == DEFAULT_CODEC:
        return Raw(data)
    return Raw(_QUOTE + b64encode(data) + _QUOTE)


_QUOTE: Final = b'"'
