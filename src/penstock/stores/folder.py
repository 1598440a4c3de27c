"""Conditional writes on a POSIX file system, blocking; `local.py` is their asynchronous face.

Theory of operation. An object is a file that is never written in place, so a reader that opened
it has the whole old content or the whole new one. What may be interrupted, step by step:

create    write a file without a name, sync it, link it to its key, sync the folder.
          link(2) refuses an existing name, which makes it the compare-and-set. A crash before
          the link leaves nothing (where the system has no nameless files: one scratch file);
          after it, the whole object.
replace   under the key's lock: read the stored content, compare its hash, write a scratch file,
          sync it, rename it over the key, sync the folder. rename(2) can't compare, hence the
          lock; the kernel drops it when its holder dies.
overwrite replace without the comparison; delete: unlink under the same lock, so that a
          replace can't bring back what was deleted between its comparison and its rename.

An error before the link or rename means nothing was applied. A failed sync after it raises
`NotSynced`: the object is visible but perhaps not durable; the sync is made good before anybody
is told that the object is there. Between the link and the folder's sync
another process may read an object that a power cut could still take back; a file system that
journals in order takes it back only together with everything later.

Names in `root`:
    {key}                      the objects
    .~penstock/{nn}.lock       locks, one for each group of keys that hash alike
    .~penstock/{nn}.scratch    what the lock's holder is writing
    .~penstock/reserve         room for the writes of a vacuum, given up when the disk is full
No key can contain `~`, so these never collide with objects or show up in a listing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from penstock.ports.store import Entry, StoredObject, Written
from penstock.stores.keys import is_segment

PRIVATE_FOLDER = ".~penstock"
LOCKS = 64
RESERVE = f"{PRIVATE_FOLDER}/reserve"
RESERVE_BYTES = 256 * 1024
SYNCED_FOLDERS_MAX = 10_000

# What open(2) and linkat(2) answer where the system or the file system has no nameless files.
_NO_NAMELESS = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EXDEV}


T = TypeVar("T")


class VersionDiffers(Exception):
    """The stored content is not what a replace was told to expect, or there is none."""


class NotSynced(Exception):
    """The object is in place, but whether it would survive a power cut is not known."""


class Created(Written):
    """What a create says; it hashes the content only if asked for the version.

    A queue's log never asks, and hashing half a mebibyte takes as long as a sync on a fast disk.
    """

    __slots__ = ("_data",)
    _data: bytes

    def __init__(self, data: bytes, modified_at: float) -> None:
        object.__setattr__(self, "_data", data)
        object.__setattr__(self, "modified_at", modified_at)

    @property
    def version(self) -> str:
        return version_of(self._data)


class Folder:
    """Files under `root`. Every method may block; all may be called from several threads."""

    def __init__(self, root: Path, *, fsync: bool) -> None:
        self._root = str(root)
        self._fsync = fsync
        self._nameless = hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")
        self._synced_folders: set[str] = set()
        self._unsynced_folders: set[str] = set()
        """Whose last sync failed: something in them may have to be made durable yet."""

    def create(self, key: str, data: bytes) -> Written:
        """Stores a new object; `FileExistsError` if there is one."""
        path = self._path(key)
        try:
            return self._create(key, path, data)
        except FileExistsError:
            # It may be our own, of a create whose sync failed: whoever finds it there relies on it.
            self._make_good(path)
            raise

    def _create(self, key: str, path: str, data: bytes) -> Written:
        if self._nameless:
            modified_at = self._create_nameless(path, data)
            if modified_at is not None:
                self._sync_folder(path)
                return Created(data, modified_at)
        with self._locked(key) as scratch:
            modified_at = self._write_scratch(scratch, data)
            try:
                _with_folder(path, lambda: os.link(scratch, path))
            finally:
                os.unlink(scratch)
        self._sync_folder(path)
        return Created(data, modified_at)

    def replace(self, key: str, data: bytes, version: str) -> Written:
        """Stores new content if the present one has this version; else `VersionDiffers`."""
        path = self._path(key)
        with self._locked(key) as scratch:
            try:
                stored = self.read(key)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise VersionDiffers from None
            if stored.version != version:
                self._make_good(path)
                raise VersionDiffers
            return self._rename_into_place(scratch, path, data)

    def overwrite(self, key: str, data: bytes) -> Written:
        with self._locked(key) as scratch:
            return self._rename_into_place(scratch, self._path(key), data)

    def remove(self, key: str) -> None:
        """Not synced: an object that a power cut brings back is deleted again by its owner."""
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError)
        with self._locked(key), absent:
            os.unlink(self._path(key))

    def open(self, key: str) -> int:
        """A descriptor that goes on seeing the object as it is now."""
        return os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)

    def read(self, key: str) -> StoredObject:
        return read_and_close(self.open(key))

    def walk(self, prefix: str, start_after: str) -> Iterator[Entry]:
        """The objects under a prefix in byte order of their keys."""
        folder, slash, _ = prefix.rpartition("/")
        yield from self._walk(folder + slash, prefix, start_after)

    def make_folder(self, key_prefix: str) -> str:
        """The folder that holds the keys with this prefix, made if need be."""
        folder = self._path(key_prefix.rpartition("/")[0]).rstrip("/")
        os.makedirs(folder, exist_ok=True)
        return folder

    def keep_reserve(self) -> None:
        """Sets room aside for what has to be written before anything can be deleted."""
        path = f"{self._root}/{RESERVE}"
        if os.path.exists(path) or not hasattr(os, "posix_fallocate"):
            return
        try:
            descriptor = _with_folder(
                path, lambda: os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            )
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            # There is no room for it now; after the next vacuum there may be.
            self.give_up_reserve()
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EOPNOTSUPP):
                raise

    def give_up_reserve(self) -> bool:
        try:
            os.unlink(f"{self._root}/{RESERVE}")
        except FileNotFoundError:
            return False
        return True

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _create_nameless(self, path: str, data: bytes) -> float | None:
        """As `create`, with a file that vanishes by itself; None if the system has none."""
        folder, _, name = path.rpartition("/")
        folder_descriptor = _with_folder(path, lambda: _open_folder(folder))
        try:
            descriptor = os.open(
                ".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder_descriptor
            )
            try:
                modified_at = self._write(descriptor, data)
                source = f"/proc/self/fd/{descriptor}"
                os.link(source, name, dst_dir_fd=folder_descriptor, follow_symlinks=True)
                return modified_at
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
            self._nameless = False
            return None
        finally:
            os.close(folder_descriptor)

    def _rename_into_place(self, scratch: str, path: str, data: bytes) -> Written:
        modified_at = self._write_scratch(scratch, data)
        try:
            _with_folder(path, lambda: os.rename(scratch, path))
        except BaseException:
            os.unlink(scratch)
            raise
        self._sync_folder(path)
        return Written(version_of(data), modified_at)

    def _write_scratch(self, scratch: str, data: bytes) -> float:
        # A crash may have left a scratch file that is linked as an object by now: writing into it
        # would alter that object, so it is unlinked and a new one is made.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            return self._write(descriptor, data)
        except BaseException:
            os.unlink(scratch)
            raise
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, data: bytes) -> float:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if self._fsync:
            _sync(descriptor)
        return os.fstat(descriptor).st_mtime

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[str]:
        """Holds the key's lock, against threads and processes alike; gives its scratch path."""
        number = zlib.crc32(key.encode()) % LOCKS
        path = f"{self._root}/{PRIVATE_FOLDER}/{number:02d}"
        descriptor = _with_folder(
            path,
            lambda: os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666),
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield f"{path}.scratch"
        finally:
            # Closing alone would leave it locked if the process forked meanwhile.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _sync_folder(self, path: str) -> None:
        """Makes a file's name durable, and at first use the names of the folders above it."""
        if not self._fsync:
            return
        folder = os.path.dirname(path)
        try:
            _sync_path(folder)
            if folder not in self._synced_folders:
                self._sync_ancestors(folder)
        except OSError as error:
            self._unsynced_folders.add(folder)
            raise NotSynced(str(error)) from error
        self._unsynced_folders.discard(folder)

    def _make_good(self, path: str) -> None:
        """Syncs a folder whose sync failed before, before anybody is told what is in it."""
        if os.path.dirname(path) in self._unsynced_folders:
            self._sync_folder(path)

    def _sync_ancestors(self, folder: str) -> None:
        # Another process may have made the folder and not yet synced it, so having found it
        # there is not enough.
        above = folder
        # A store may be the root of the file system, which has nothing above it.
        while len(above) > len(self._root) and above != os.path.dirname(above):
            above = os.path.dirname(above)
            _sync_path(above)
        with contextlib.suppress(PermissionError):
            # One may own a folder inside another that one can't even read.
            _sync_path(os.path.dirname(self._root))
        if len(self._synced_folders) >= SYNCED_FOLDERS_MAX:
            self._synced_folders.clear()
        self._synced_folders.add(folder)

    def _walk(self, folder: str, prefix: str, start_after: str) -> Iterator[Entry]:
        try:
            with os.scandir(f"{self._root}/{folder}") as found:
                # A folder sorts with its slash, as its keys do: `a-b` comes before `a/b`.
                named = {
                    entry.name + "/" * entry.is_dir(): entry
                    for entry in found
                    if is_segment(entry.name)
                }
        except (FileNotFoundError, NotADirectoryError):
            return
        for name, entry in sorted(named.items(), key=itemgetter(0)):
            key = folder + name
            if name.endswith("/"):
                if _may_hold(key, prefix, start_after):
                    yield from self._walk(key, prefix, start_after)
            elif key.startswith(prefix) and key > start_after:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    yield Entry(key, status.st_size, status.st_mtime)


def version_of(data: bytes) -> str:
    """Equal for equal content. SHA-256 because processors have it built in."""
    return hashlib.sha256(data).hexdigest()[:32]


def read_and_close(descriptor: int) -> StoredObject:
    with open(descriptor, "rb", buffering=0) as file:
        data = file.readall()
        return StoredObject(data, version_of(data), os.fstat(descriptor).st_mtime)


def _with_folder(path: str, act: Callable[[], T]) -> T:
    """Folders are made on demand: only once something failed for want of one."""
    try:
        return act()
    except FileNotFoundError:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except FileExistsError as error:
            # Or it would look as if the object itself existed.
            raise NotADirectoryError(errno.ENOTDIR, "a part of the key is an object") from error
        return act()


def _may_hold(folder: str, prefix: str, start_after: str) -> bool:
    """Whether any key in this folder can be under the prefix and after the start."""
    under_prefix = folder.startswith(prefix) or prefix.startswith(folder)
    return under_prefix and (folder > start_after or start_after.startswith(folder))


def _open_folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _sync_path(folder: str) -> None:
    descriptor = _open_folder(folder)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):
        # On macOS fsync stops at the drive's own cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
