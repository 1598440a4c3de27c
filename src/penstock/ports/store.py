"""The port to bytes: what an object store must promise to carry a queue.

Anything with these methods can be passed to `penstock.open(store=…)`; the suite in
`penstock.testing.conformance.store` says whether it keeps the promises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable


@dataclass(frozen=True, slots=True)
class Create:
    """Put only if nothing is stored under the key."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Put only if the object stored under the key still has this version."""

    version: str


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Put whatever is there."""


PutMode: TypeAlias = Create | Replace | Overwrite


@dataclass(frozen=True, slots=True)
class Written:
    """What a put that was applied says: the new version and, where known, the store's own time."""

    version: str
    modified_at: float | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    data: bytes
    version: str
    modified_at: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a listing."""

    key: str
    size_bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """Named bytes with conditional puts.

    Guarantees that the engines rely on:

    - `put` with `Create` or `Replace` is atomic: of several racing for one key, one wins.
    - A `put` ends in one of four ways: it returns (applied), raises `PreconditionFailed` (refused,
      which may be the echo of an earlier attempt of one's own), raises `PutUnknown` (sent, fate
      unknown), or raises another `StoreError` (certainly not applied). It never retries
      a conditional put, nor a delete, by itself.
    - A reader sees the old object or the new one, never a part; after a put was applied, every
      `get` sees it.
    - `get` of nothing raises `ObjectNotFound`; `delete` of nothing is fine.
    - `list` yields the keys under a prefix in ascending order of their UTF-8 bytes, those after
      `start_after`. It may lag behind the puts on some stores; nothing correct depends on it.
    - A key is never the folder of another: with `a` stored there is no `a/b`.
    - A delete need not survive a power cut; whoever deletes does it again.
    - `modified_at` is the store's own clock, in seconds since the epoch.

    Keys are relative paths of `[A-Za-z0-9._=-]` segments joined by `/`.
    """

    @property
    def name(self) -> str:
        """How messages call it, such as `s3://bucket/prefix`; without credentials."""
        ...

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written: ...

    async def get(self, key: str) -> StoredObject: ...

    async def delete(self, key: str) -> None: ...

    def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    key: str
    version_id: str
    modified_at: float
    latest: bool
    deleted: bool


@runtime_checkable
class Versioned(Protocol):
    """A store that keeps the old versions of its objects (S3 with bucket versioning)."""

    def versions(self, key: str) -> AsyncIterator[ObjectVersion]:
        """All versions of one object, newest first."""
        ...

    async def get_version(self, key: str, version_id: str) -> StoredObject: ...


@runtime_checkable
class Bucket(Protocol):
    """A store whose bucket can be asked, and told, how to keep objects (S3)."""

    async def keeps_versions(self) -> bool:
        """Whether the old version of an object stays when it is replaced or deleted."""
        ...

    async def keep_versions(self) -> None:
        """From now on it does."""
        ...

    async def allow_origins(self, origins: Sequence[str]) -> None:
        """Lets pages from these origins, and no others, read and write objects."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A store that can say when something under a prefix may have changed."""

    def watch(self, prefix: str) -> AsyncIterator[None]:
        """Yields after each change, perhaps several folded into one, perhaps one too many.

        A hint: a change may go unsaid, so whoever relies on it looks now and then all the same.
        """
        ...


@runtime_checkable
class Reserving(Protocol):
    """A store that can keep some room for the day on which there is none."""

    async def keep_reserve(self) -> None:
        """Sets room aside, unless it is or there is too little."""
        ...

    async def give_up_reserve(self) -> bool:
        """Makes that room free; False: there was none."""
        ...
