"""A folder as an object store, safe between the processes of one machine.

The file operations and their theory are in `folder.py`. Here is what runs where: whatever waits
for the disk or for a lock runs in threads of the store's own; looking for an object and reading
a small one is done at once, since that costs a tenth of handing it to a thread.
"""

from __future__ import annotations

import errno
import importlib.util
import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import assert_never

from penstock.errors import (
    ObjectNotFound,
    PreconditionFailed,
    PutUnknown,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from penstock.ports.store import Create, Entry, Overwrite, PutMode, Replace, StoredObject, Written
from penstock.stores.folder import Folder, NotSynced, VersionDiffers, read_and_close
from penstock.stores.keys import check_key, check_prefix
from penstock.stores.threads import Threads

INLINE_BYTES_MAX = 128 * 1024
LIST_PAGE_KEYS = 1000
THREADS = 4

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_IMPOSSIBLE = {errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class LocalStore:
    """Objects as files under `root`, which is made when something is first put.

    `fsync=False` gives up what a power cut would take, not what a killed process would.
    One object's key can't be the folder of another's: with `a` there is no `a/b`.
    """

    def __init__(self, root: str | os.PathLike[str], *, fsync: bool = True) -> None:
        self._root = Path(root).absolute()
        self._folder = Folder(self._root, fsync=fsync)
        # Creating is the hot path of a queue: it must not queue up behind puts that wait for locks.
        self._threads = Threads("penstock-local", THREADS)
        self._locking_threads = Threads("penstock-local-locking", THREADS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        return self._root.as_uri()

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        check_key(key)
        try:
            match mode:
                case Create():
                    return await self._threads.submit(lambda: self._folder.create(key, data))
                case Replace(version):
                    return await self._locking_threads.submit(
                        lambda: self._folder.replace(key, data, version)
                    )
                case Overwrite():
                    return await self._locking_threads.submit(
                        lambda: self._folder.overwrite(key, data)
                    )
                case _:
                    assert_never(mode)
        except (OSError, NotSynced, VersionDiffers) as error:
            raise self._translate(error, key) from error

    async def get(self, key: str) -> StoredObject:
        check_key(key)
        try:
            descriptor = self._folder.open(key)
            if os.fstat(descriptor).st_size <= INLINE_BYTES_MAX:
                return read_and_close(descriptor)
            return await self._threads.submit(lambda: read_and_close(descriptor))
        except _ABSENT:
            raise ObjectNotFound(self.name, key) from None
        except OSError as error:
            raise self._translate(error, key) from error

    async def delete(self, key: str) -> None:
        check_key(key)
        try:
            await self._locking_threads.submit(lambda: self._folder.remove(key))
        except OSError as error:
            raise self._translate(error, key) from error

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix)
        walk = self._folder.walk(prefix, start_after)
        while True:
            try:
                page = await self._threads.submit(
                    lambda: tuple(itertools.islice(walk, LIST_PAGE_KEYS))
                )
            except OSError as error:
                raise self._translate(error, prefix) from error
            for entry in page:
                yield entry
            if len(page) < LIST_PAGE_KEYS:
                return

    async def keep_reserve(self) -> None:
        try:
            await self._threads.submit(self._folder.keep_reserve)
        except OSError as error:
            raise self._translate(error, "") from error

    async def give_up_reserve(self) -> bool:
        try:
            return await self._threads.submit(self._folder.give_up_reserve)
        except OSError as error:
            raise self._translate(error, "") from error

    async def close(self) -> None:
        self._threads.close()
        self._locking_threads.close()

    def _translate(self, error: Exception, key: str) -> StoreError:
        match error:
            case NotSynced():
                return PutUnknown(self.name, key, f"written but not synced: {error}")
            case VersionDiffers() | FileExistsError():
                return PreconditionFailed(self.name, key)
            case OSError(errno=number) if number in _FULL:
                return StoreFull(self.name, key)
            case OSError(errno=number) if number in _DENIED:
                return StoreDenied(self.name, key, str(error))
            case OSError(errno=number) if number in _IMPOSSIBLE:
                return StoreRefused(self.name, key, f"no file can have this name: {error}")
            case _:
                return StoreUnavailable(self.name, key, str(error))


def local_store(root: str | os.PathLike[str], *, fsync: bool = True) -> LocalStore:
    """A folder that says when it changes, where the `watchfiles` package is installed."""
    if importlib.util.find_spec("watchfiles") is None:
        return LocalStore(root, fsync=fsync)
    from penstock.stores.watched import WatchedLocalStore

    return WatchedLocalStore(root, fsync=fsync)
