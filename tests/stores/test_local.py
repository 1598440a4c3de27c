"""The folder adapter, beyond what every store does."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from penstock.errors import (
    ObjectNotFound,
    PreconditionFailed,
    PutUnknown,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from penstock.ports.store import Create, Overwrite, PutMode, Replace, Watchable
from penstock.stores.folder import PRIVATE_FOLDER, Folder, version_of
from penstock.stores.local import INLINE_BYTES_MAX, LIST_PAGE_KEYS, LocalStore, local_store

NOBODY = 65534


def files_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def objects_in(root: Path) -> list[str]:
    return [name for name in files_in(root) if not name.startswith(PRIVATE_FOLDER)]


async def test_nothing_is_made_until_something_is_put(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep" / "queue")
    with pytest.raises(ObjectNotFound):
        await store.get("key")
    assert [entry async for entry in store.list("")] == []
    assert not files_in(tmp_path)
    await store.put("log/1", b"content", Create())
    assert (tmp_path / "deep/queue/log/1").read_bytes() == b"content"


async def test_a_create_leaves_only_its_object_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("log/1", b"content", Create())
    with pytest.raises(StoreError):
        await store.put("log/1", b"content", Create())
    assert files_in(tmp_path) == ["log/1"]


async def test_a_create_without_nameless_files_leaves_no_scratch_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.O_TMPFILE", raising=False)
    store = LocalStore(tmp_path)
    await store.put("log/1", b"content", Create())
    with pytest.raises(StoreError):
        await store.put("log/1", b"content", Create())
    assert not [name for name in files_in(tmp_path) if name.endswith(".scratch")]
    assert (tmp_path / "log/1").stat().st_nlink == 1


async def test_a_file_system_without_nameless_files_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_opening(monkeypatch, errno.EOPNOTSUPP, flags=os.O_TMPFILE)
    store = LocalStore(tmp_path)
    await store.put("log/1", b"one", Create())
    await store.put("log/2", b"two", Create())
    assert objects_in(tmp_path) == ["log/1", "log/2"]


async def test_versions_are_hashes_of_the_content(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    first = await store.put("one", b"same", Create())
    second = await store.put("two", b"same", Create())
    assert first.version == second.version == version_of(b"same")


@pytest.mark.parametrize("size", [0, 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1])
async def test_small_and_large_objects_are_read_alike(tmp_path: Path, size: int) -> None:
    store = LocalStore(tmp_path)
    written = await store.put("key", b"x" * size, Create())
    stored = await store.get("key")
    assert stored.data == b"x" * size
    assert stored.version == written.version
    assert stored.modified_at == written.modified_at


async def test_what_a_killed_process_left_is_not_listed_and_does_no_harm(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("key", b"first", Create())
    private = tmp_path / PRIVATE_FOLDER
    private.mkdir()
    for number in range(64):
        # The worst that can be left: a scratch file that is an object by now.
        os.link(tmp_path / "key", private / f"{number:02d}.scratch")
    assert [entry.key async for entry in store.list("")] == ["key"]
    await store.put("other", b"second", Overwrite())
    assert (await store.get("key")).data == b"first"
    assert (await store.get("other")).data == b"second"


async def test_foreign_files_are_not_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("key", b"content", Create())
    (tmp_path / "notes about this.txt").write_text("not ours")
    (tmp_path / "key~").write_text("an editor's")
    assert [entry.key async for entry in store.list("")] == ["key"]


async def test_folders_that_became_empty_are_not_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("a/b/c", b"content", Create())
    await store.delete("a/b/c")
    assert [entry async for entry in store.list("")] == []


async def test_an_object_is_no_folder_and_a_folder_no_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("a/b", b"content", Create())
    with pytest.raises(ObjectNotFound):
        await store.get("a")
    with pytest.raises(ObjectNotFound):
        await store.get("a/b/c")
    await store.delete("a")
    await store.delete("a/b/c")
    for mode in (Create(), Overwrite()):
        with pytest.raises(StoreError, match="no file can have this name"):
            await store.put("a/b/c", b"content", mode)
    with pytest.raises(StoreError):
        await store.put("a", b"content", Overwrite())
    assert objects_in(tmp_path) == ["a/b"]


async def test_a_listing_of_exactly_full_pages_ends(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, fsync=False)
    (tmp_path / "log").mkdir()
    for number in range(2 * LIST_PAGE_KEYS):
        (tmp_path / f"log/{number:06d}").touch()
    keys = [entry.key async for entry in store.list("log/")]
    assert keys == [f"log/{number:06d}" for number in range(2 * LIST_PAGE_KEYS)]


async def test_a_put_that_nobody_waits_for_any_more_still_ends(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    put = asyncio.ensure_future(store.put("key", b"content", Create()))
    await asyncio.sleep(0)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    await store.put("later", b"content", Create())
    assert (await store.get("later")).data == b"content"


async def test_a_store_may_be_the_root_of_the_file_system(tmp_path: Path) -> None:
    """What is above it has no end, and is synced all the same."""
    created = Folder(Path("/"), fsync=True).create(f"{tmp_path}/folder/object".strip("/"), b"{}")
    assert created.version == version_of(b"{}")
    assert (tmp_path / "folder" / "object").read_bytes() == b"{}"


async def test_names_are_addresses(tmp_path: Path) -> None:
    assert LocalStore(tmp_path / "my queue").name == f"file://{tmp_path}/my%20queue"


async def test_without_watchfiles_a_folder_can_not_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(local_store(tmp_path), Watchable)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not isinstance(local_store(tmp_path), Watchable)


MODES = [Create(), Replace(version_of(b"before")), Overwrite()]


def key_for(mode: PutMode) -> str:
    return "log/new" if isinstance(mode, Create) else "log/old"


@pytest.mark.parametrize("mode", MODES, ids=repr)
async def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path, mode: PutMode) -> None:
    with small_disk(tmp_path) as root:
        store = LocalStore(root)
        await store.put("log/old", b"before", Create())
        await store.put("floor", b"0", Overwrite())
        before = files_in(root)
        with pytest.raises(StoreFull):
            await store.put(key_for(mode), os.urandom(4 * 1024 * 1024), mode)
        assert [n for n in files_in(root) if not n.endswith(".lock")] == [
            n for n in before if not n.endswith(".lock")
        ]
        assert (await store.get("log/old")).data == b"before"
        await store.put("log/small", b"fits", Create())
        await store.close()


async def test_a_full_folder_has_a_reserve_to_be_vacuumed_with(tmp_path: Path) -> None:
    with small_disk(tmp_path) as root:
        if not root.parent.is_mount():
            pytest.skip("a disk that is really full takes root")
        store = LocalStore(root)
        await store.put("log/1", b"first", Create())
        await store.keep_reserve()
        with suppress(StoreFull):
            for n in range(2, 1_000):
                await store.put(f"log/{n}", os.urandom(4096), Create())
        with pytest.raises(StoreFull):
            await store.put("floor", b"2" * 4096, Overwrite())
        assert await store.give_up_reserve()
        await store.put("floor", b"2" * 4096, Overwrite())
        for n in range(2, 100):
            await store.delete(f"log/{n}")
        assert not await store.give_up_reserve()
        await store.keep_reserve()
        assert await store.give_up_reserve()
        await store.close()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A real disk of one mebibyte for root, else a limit on the size of files."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], stderr=subprocess.DEVNULL
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if not mounted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, hard))
    try:
        yield disk / "queue"
    finally:
        if mounted:
            subprocess.check_call(["umount", str(disk)])
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own, whose rights all tests share."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("mode", MODES, ids=repr)
async def test_a_folder_that_may_not_be_written_is_denied(open_folder: Path, mode: PutMode) -> None:
    store = LocalStore(open_folder / "queue")
    await store.put("log/old", b"before", Create())
    await store.put("floor", b"0", Overwrite())
    with read_only(open_folder / "queue"):
        with pytest.raises(StoreDenied):
            await store.put(key_for(mode), b"after", mode)
        assert (await store.get("log/old")).data == b"before"


@contextmanager
def read_only(root: Path) -> Iterator[None]:
    """Takes away the right to write, and from root its power to write anyway."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    user = os.geteuid()
    for path in modes:
        path.chmod(0o555)
    try:
        if user == 0:
            os.seteuid(NOBODY)
        yield
    finally:
        os.seteuid(user)
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.mark.parametrize("mode", MODES, ids=repr)
async def test_a_failed_sync_of_the_folder_leaves_the_outcome_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: PutMode
) -> None:
    store = LocalStore(tmp_path)
    await store.put("log/old", b"before", Create())
    fail_syncing(monkeypatch, lambda status: stat.S_ISDIR(status.st_mode))
    with pytest.raises(PutUnknown):
        await store.put(key_for(mode), b"after", mode)
    assert (await store.get(key_for(mode))).data == b"after"


@pytest.mark.parametrize("mode", MODES, ids=repr)
async def test_a_failed_sync_of_the_file_means_not_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: PutMode
) -> None:
    store = LocalStore(tmp_path)
    await store.put("log/old", b"before", Create())
    fail_syncing(monkeypatch, lambda status: stat.S_ISREG(status.st_mode))
    with pytest.raises(StoreUnavailable):
        await store.put(key_for(mode), b"after", mode)
    assert objects_in(tmp_path) == ["log/old"]
    assert (await store.get("log/old")).data == b"before"


async def test_an_object_is_synced_before_it_is_seen_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "queue")
    steps: list[str] = []
    real_sync, real_link = os.fsync, os.link

    def sync(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink()}" if folder else "sync")
        real_sync(descriptor)

    def link(*arguments: object, **options: object) -> None:
        steps.append("link")
        real_link(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    await store.put("log/1", b"content", Create())
    log, root = f"{tmp_path}/queue/log", f"{tmp_path}/queue"
    # The first time, the folders above are made durable too, whoever made them.
    assert steps == ["sync", "link", f"sync {log}", f"sync {root}", f"sync {tmp_path}"]
    steps.clear()
    await store.put("log/2", b"content", Create())
    assert steps == ["sync", "link", f"sync {log}"]


async def test_without_fsync_nothing_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_syncing(monkeypatch, lambda status: True)
    store = LocalStore(tmp_path, fsync=False)
    written = await store.put("log/1", b"content", Create())
    await store.put("log/1", b"other", Replace(written.version))
    assert (await store.get("log/1")).data == b"other"


def fail_syncing(monkeypatch: pytest.MonkeyPatch, which: Callable[[os.stat_result], bool]) -> None:
    real = os.fsync

    def sync(descriptor: int) -> None:
        if which(os.fstat(descriptor)):
            raise OSError(errno.EIO, "the disk is dying")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)


def refuse_opening(monkeypatch: pytest.MonkeyPatch, number: int, flags: int) -> None:
    real = os.open

    def opened(path: str, wanted: int, *arguments: int, **options: int) -> int:
        if wanted & flags == flags:
            raise OSError(number, "no such thing here")
        return real(path, wanted, *arguments, **options)

    monkeypatch.setattr(os, "open", opened)


async def test_a_folder_sync_that_failed_is_made_good_before_the_object_is_said_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    await store.put("log/1", b"first", Create())
    real, fails, synced = os.fsync, True, list[bool]()

    def sync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if is_folder and fails:
            raise OSError(errno.EIO, "the disk is in trouble")
        synced.append(is_folder)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    for _ in range(2):
        # The second finds its own object; as long as that may vanish, nobody is told of it.
        with pytest.raises(PutUnknown):
            await store.put("log/2", b"second", Create())
    fails = False
    synced.clear()
    with pytest.raises(PreconditionFailed):
        await store.put("log/2", b"second", Create())
    assert True in synced, "its folder was not synced"
    synced.clear()
    with pytest.raises(PreconditionFailed):
        await store.put("log/2", b"second", Create())
    assert True not in synced, "once is enough"
    await store.close()
