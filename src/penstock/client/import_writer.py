"""Writing the rows of a bulk import where there is no queue to talk to, such as in a Spark task.

    with penstock.import_writer(url, run) as writer:
        for row in rows:
            writer.add("resize", row.payload_json)
    manifest = writer.manifest

Only the store is opened. Leaving the block writes the rest and waits for what is on its way; then
`manifest` says where everything lies. It is small and can be pickled: bring the manifests of all
writers of a run together and publish them with `queue.publish_import(run, manifests)`, or, if rows
have ids or keys of their own (`manifest.has_identities`), with `queue.import_rows`. Nothing can be
seen before that. Names are unique, so several attempts may write the same rows: only what is in
a published manifest counts, the rest is swept.
"""

from __future__ import annotations

from asyncio import run_coroutine_threadsafe
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Raw

from penstock.client.handle import INLINE_BYTES_MAX
from penstock.client.rows import (
    RowBuffer,
    check_run,
    checked_row,
    inline_payload,
    inline_payloads,
)
from penstock.errors import InvalidInput
from penstock.kernel.job import (
    DEFAULT_CODEC,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TENANT,
    NO_SECONDS,
)
from penstock.kernel.manifest import ImportManifest, ImportObject, SegmentRecord
from penstock.kernel.plain import plain_text
from penstock.kernel.retry import RetryPolicy
from penstock.runtime.loops import LoopThread
from penstock.wire.imports import object_record

UPLOADS_MAX: Final = 2
"""How many objects are on their way while the next one gathers."""

Keep = Callable[[str, bytes], Awaitable[str]]
"""Stores an object of a run and answers its key."""


class ImportWriter:
    """What `penstock.import_writer` returns. For one thread."""

    def __init__(
        self,
        run: str,
        keep: Keep,
        close: Callable[[], Awaitable[None]],
        *,
        tenant: str = DEFAULT_TENANT,
        inline_bytes_max: int = INLINE_BYTES_MAX,
    ) -> None:
        self.run = check_run(run)
        self._keep = keep
        self._close = close
        self._tenant = tenant
        self._inline_bytes_max = inline_bytes_max
        self._buffer = RowBuffer()
        self._objects: list[ImportObject] = []
        self._uploads: deque[Future[ImportObject]] = deque()
        self._thread: LoopThread | None = None
        self._manifest: ImportManifest | None = None

    def __enter__(self) -> Self:
        self._thread = LoopThread("penstock-import")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        try:
            if error is None:
                self._flush()
            while self._uploads:
                self._take_upload(is_wanted=error is None)
            if error is None:
                self._manifest = ImportManifest(
                    tuple(self._objects), self._buffer.rows, self._buffer.has_identities
                )
        finally:
            self._thread.run(_awaited(self._close))
            self._thread.stop()
            self._thread = None

    @property
    def rows(self) -> int:
        """How many were added so far."""
        return self._buffer.rows

    @property
    def manifest(self) -> ImportManifest:
        """What was written: after the block, if that ended well."""
        if self._manifest is None:
            raise InvalidInput("a manifest is there after the writer's block has ended well")
        return self._manifest

    def inline(
        self, payloads: Sequence[str | bytes | None], codec: str = DEFAULT_CODEC
    ) -> list[Raw]:
        """Checks many payloads at once, which is faster; give each to `add`.

        `payloads` are as `add` takes them, `codec` is theirs.
        """
        return inline_payloads(payloads, codec, self._inline_bytes_max)

    def add(
        self,
        type: str,
        payload: str | bytes | Raw | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
        run_at: float | None = None,
        tenant: str | None = None,
        codec: str = DEFAULT_CODEC,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        retry: RetryPolicy | None = None,
        meta: dict[str, Any] | None = None,
        trace: str | None = None,
        id: str | None = None,
        key: str | None = None,
        unique_seconds: float = NO_SECONDS,
    ) -> None:
        """Adds a job: `payload` is one JSON document, or the bytes of another codec.

        A `Raw` is one that `inline` has given.

        `type` and the other parameters are those of `enqueue`: `queue`, `tenant`, `id`, `key`,
        `unique_seconds`, `priority`, `run_at`, `max_attempts`, `retry`, `timeout_seconds`, `meta`,
        `trace`, `codec`.
        """
        if self._thread is None:
            raise InvalidInput("add rows inside the writer's `with` block")
        if codec is not DEFAULT_CODEC:
            codec = plain_text("codec", codec)
        raw = inline_payload(payload, codec, self._inline_bytes_max)
        row = checked_row(
            raw, run_at, codec, max_attempts, timeout_seconds, retry, meta, trace, id, key,
            unique_seconds,
        )  # fmt: skip
        if self._buffer.add(
            (self._tenant if tenant is None else tenant, queue, type, priority), row
        ):
            self._flush()

    def _flush(self) -> None:
        cut = self._buffer.cut()
        if cut is not None:
            assert self._thread is not None
            upload = run_coroutine_threadsafe(self._upload(*cut), self._thread.loop)
            self._uploads.append(upload)
        while len(self._uploads) > UPLOADS_MAX:
            self._take_upload(is_wanted=True)

    def _take_upload(self, *, is_wanted: bool) -> None:
        upload = self._uploads.popleft()
        if is_wanted:
            self._objects.append(upload.result())
        else:
            upload.cancel()

    async def _upload(self, data: bytes, segments: list[SegmentRecord]) -> ImportObject:
        return object_record(await self._keep(self.run, data), data, segments)


async def _awaited(act: Callable[[], Awaitable[None]]) -> None:
    await act()
