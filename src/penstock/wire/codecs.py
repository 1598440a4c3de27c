"""Codecs: how payloads and results become bytes, by a name that travels beside them.

What is stored is always one JSON value, so that the log stays readable: the JSON codec's output as
it is, everybody else's in base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from penstock.errors import PayloadInvalid
from penstock.kernel.job import ABSENT, DEFAULT_CODEC
from penstock.kernel.plain import describe, is_a, plain_scalar, plain_text
from penstock.wire.values import encode_exact, encode_value, one_line, read, require_shallow

PAYLOAD: Final = "payload"
"""What has to come back as it was. Of a result the work is done."""
_BYTES: Final = (bytes, bytearray, memoryview)
_QUOTE: Final = b'"'


class Undecodable(Struct, frozen=True, tag_field="kind", tag="undecodable", omit_defaults=True):
    """Stands in place of a payload or result that this process can't make a value of.

    Handed in as one, it is stored as the same bytes of the same codec again.
    """

    codec: str
    size_bytes: int | None
    """Of the raw bytes, there or not; None: nobody knows."""
    reason: str
    """What is missing, in words."""
    raw: bytes | None = None
    """The bytes themselves, for whoever knows the codec; None: not there, or only told about."""

    def told(self) -> Undecodable:
        """The same for people, who have no use for the bytes."""
        return self if self.raw is None else replace(self, raw=None)

    def __repr__(self) -> str:
        return f"Undecodable({self.codec!r}, {self.size_bytes}, {self.reason!r})"


class Beside(Struct, frozen=True, tag_field="kind", tag="beside"):
    """Stands in a list in place of a large value: it is kept beside the queue and was not fetched.

    Whether it is still there shows who fetches it: `get`, or `jobs(fetch=True)`.
    """

    codec: str
    size_bytes: int
    """Of the raw bytes."""


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
        self.encode = encode_value
        self.decode = msgspec.json.Decoder().decode


class MessagePackCodec:
    name = "msgpack"

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder(enc_hook=plain_scalar).encode
        self.decode = msgspec.msgpack.Decoder().decode

    def encode(self, value: Any) -> bytes:
        data = self._encode(value)
        # Read once: a `Raw` in it may be anything.
        require_shallow(self.decode(data))
        return data


class RawCodec:
    """Bytes as they are."""

    name = "raw"

    def encode(self, value: Any) -> bytes:
        if not issubclass(type(value), _BYTES):
            raise TypeError(f"expected bytes, got {type(value).__name__}")
        return bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data


class Codecs:
    """The codecs that one queue knows, its own and those the caller brings."""

    def __init__(self, more: Iterable[Codec] = ()) -> None:
        self._json = JSONCodec()
        built_in: list[Codec] = [self._json, MessagePackCodec(), RawCodec()]
        self._by_name = {plain_text("codec", codec.name): codec for codec in (*built_in, *more)}

    def encode(self, value: Any, name: str | None = None, what: str = "value") -> tuple[bytes, str]:
        """The value as bytes, and the codec's name. Without one: bytes stay bytes, else JSON.

        `what` is how messages call it. A `PAYLOAD` that JSON would turn into something else is
        refused.
        """
        if type(value) is Undecodable:
            return _put_back(value)
        if type(value) is Beside:
            raise PayloadInvalid(value.codec, "it was not fetched: get the job to have it", what)
        if name is None:
            name = "raw" if issubclass(type(value), _BYTES) else DEFAULT_CODEC
        else:
            name = plain_text("codec", name)
        codec = self._by_name.get(name)
        if codec is None:
            known = ", ".join(self._by_name)
            raise PayloadInvalid(name, f"no such codec; known are {known}", what)
        try:
            is_exact = codec is self._json and what == PAYLOAD
            data = encode_exact(value) if is_exact else codec.encode(value)
            if codec is not self._json and name == DEFAULT_CODEC:
                # Somebody's own: what it calls JSON stands in the log as it is.
                read(data)
                data = one_line(data)
        except Exception as error:
            # Anybody's codec may raise anything, and that is about this value alone.
            raise PayloadInvalid(name, describe(error), what) from error
        if not isinstance(data, bytes):
            raise PayloadInvalid(
                name, f"its encode gave {type(data).__name__} in place of bytes", what
            )
        return data, name

    def decode(self, data: bytes, name: str) -> Any:
        """The value, or an `Undecodable` in its place: one that can't be read harms nobody else."""
        codec = self._by_name.get(name)
        if codec is None:
            known = ", ".join(self._by_name)
            reason = f"no codec {name!r} here: open the queue with it; known are {known}"
            return Undecodable(name, len(data), reason, data)
        try:
            return codec.decode(data)
        except Exception as error:  # noqa: BLE001  # anybody's codec may raise anything
            reason = f"its codec refuses the bytes: {type(error).__name__}: {describe(error)}"
            return Undecodable(name, len(data), reason, data)

    def decode_inline(self, inline: Raw, name: str) -> Any:
        if inline is ABSENT:
            return None
        try:
            if name == DEFAULT_CODEC:
                return self._json.decode(inline)
            data = b64decode(msgspec.json.decode(inline, type=str))
        except (ValueError, RecursionError) as error:
            return Undecodable(name, len(bytes(inline)), f"what is stored is no value: {error}")
        return self.decode(data, name)


def _put_back(value: Undecodable) -> tuple[bytes, str]:
    """What could not be read once can't be judged: it is stored as it was."""
    if not is_a(value.raw, bytes):
        raise PayloadInvalid(value.codec, f"its bytes are not there ({value.reason})")
    if value.codec != DEFAULT_CODEC:
        return value.raw, plain_text("codec", value.codec)
    try:
        read(value.raw)
    except ValueError as error:
        raise PayloadInvalid(value.codec, str(error)) from None
    return one_line(value.raw), DEFAULT_CODEC


def to_inline(data: bytes, name: str) -> Raw:
    """Encoded bytes in the form in which they stand in an event."""
    if name == DEFAULT_CODEC:
        return Raw(data)
    return Raw(_QUOTE + b64encode(data) + _QUOTE)
