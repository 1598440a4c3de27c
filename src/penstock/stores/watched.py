"""A folder that says when it changes, through the file system's own notifications."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator

from penstock.stores.folder import PRIVATE_FOLDER
from penstock.stores.keys import check_prefix
from penstock.stores.local import LocalStore

# How often the watching thread looks up: half of the longest delay that a follower will notice.
STEP_MILLISECONDS = 2
# How long changes may be gathered before they are told; a step without any ends it sooner.
GATHER_MILLISECONDS = 4
# 0: no limit, it ends when it is told to.
TIMEOUT_MILLISECONDS = 0


class WatchedLocalStore(LocalStore):
    """A `LocalStore` that is also `Watchable`."""

    async def watch(self, prefix: str) -> AsyncIterator[None]:
        check_prefix(prefix)
        folder = await self._threads.submit(lambda: self._folder.make_folder(prefix))
        watch = _Watch(folder, f"{folder}/{prefix.rpartition('/')[2]}")
        watch.start()
        try:
            while True:
                await watch.changed.wait()
                watch.changed.clear()
                if watch.error is not None:
                    raise self._translate(watch.error, prefix) from watch.error
                yield
        finally:
            watch.stop()


class _Watch:
    """One thread that waits for one folder's changes, until stopped or the program ends."""

    def __init__(self, folder: str, path_prefix: str) -> None:
        self.changed = asyncio.Event()
        self.error: Exception | None = None
        self._folder = folder
        self._path_prefix = path_prefix
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="penstock-watch")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The thread ends within a step; waiting for it would hold up the event loop."""
        self._stopped = True

    def is_set(self) -> bool:
        """What the watcher asks at each step, in the manner of an event: has it to stop?

        A watch that nobody closed must not keep the program from ending.
        """
        return self._stopped or not threading.main_thread().is_alive()

    def _run(self) -> None:
        # Imported here because it takes a tenth of a second, and this thread has the time.
        from watchfiles._rust_notify import RustNotify

        try:
            with RustNotify([self._folder], False, False, 0, True, True) as watcher:
                # What changed before the watcher was ready is seen by looking once.
                self._tell()
                while True:
                    changes = watcher.watch(
                        GATHER_MILLISECONDS, STEP_MILLISECONDS, TIMEOUT_MILLISECONDS, self
                    )
                    if isinstance(changes, str):
                        return
                    if any(self._concerns(path) for _, path in changes):
                        self._tell()
        except (OSError, RuntimeError) as error:
            # RuntimeError is what the package raises when the system has no watches left.
            self.error = error
            self._tell()

    def _concerns(self, path: str) -> bool:
        return path.startswith(self._path_prefix) and f"/{PRIVATE_FOLDER}/" not in path

    def _tell(self) -> None:
        # The loop may have been closed by a program that did not close the watch.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.changed.set)
