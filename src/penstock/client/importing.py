"""Bulk imports: many jobs written as objects, made jobs by one commit.

`import_jobs` does it all from one process. Where many processes write, each uses an `ImportWriter`
and one of them publishes what they wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from penstock.client.arguments import NEW_JOBS, check_function
from penstock.client.handle import Handle
from penstock.client.newjob import NewJob, submission
from penstock.client.rows import RowBuffer, check_batch, check_run
from penstock.errors import InvalidInput, InvalidJob, PayloadTooLarge, Unsupported
from penstock.kernel import commands
from penstock.kernel.commands import ImportReceipt
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.manifest import ImportManifest, ImportObject, Row
from penstock.kernel.plain import is_a, plain_items, plain_list
from penstock.wire.codecs import PAYLOAD
from penstock.wire.imports import Group, object_record
from penstock.wire.values import Unreadable, as_read

Progress = Callable[[int, int], None]
"""Told how many rows are enqueued, and of how many."""
_MANIFESTS: Final = "pass a list of the manifests of import writers"


class Importing(Handle):
    async def publish_import(
        self,
        run: str,
        manifests: Iterable[ImportManifest],
        *,
        query: str | None = None,
        batch: int | None = None,
    ) -> ImportReceipt:
        """Makes every row of a run a job, all of them by one commit, and once only.

        Doing it again answers `already published`. So does a batch of a streaming query that is
        not above the highest one published. A run that was aborted raises `RunAborted`.

        `run` names the import and `manifests` are those of its writers; `query` and `batch` are for
        streaming: whose, and the which.
        """
        run, (query, batch) = check_run(run), check_batch(query, batch)
        objects, has_identities = self._checked(manifests)
        if has_identities:
            raise InvalidInput(
                f"run {run!r} has rows with an id or key of their own, which may be duplicates: "
                "use import_rows"
            )
        command = commands.PublishImport(SYSTEM_TENANT, run, objects, query, batch)
        return await self._backend.execute(command)

    async def import_rows(
        self,
        run: str,
        manifests: Iterable[ImportManifest] = (),
        *,
        query: str | None = None,
        batch: int | None = None,
        progress: Progress | None = None,
    ) -> ImportReceipt:
        """Enqueues the rows of a run, of which some may be duplicates, batch by batch.

        Anybody can go on with a run that was begun, without manifests: what was recorded first
        counts. Each row is enqueued once, however often that happens.

        `run` names the import and `manifests` are those of its writers; `query` and `batch` as
        above; `progress` is told how many rows are enqueued, and of how many.
        """
        run, (query, batch) = check_run(run), check_batch(query, batch)
        if progress is not None:
            check_function("progress", progress)
        objects, _ = self._checked(manifests)
        stage = commands.StageImport(SYSTEM_TENANT, run, objects, query, batch)
        at = await self._backend.execute(stage)
        if not at.is_new:
            return ImportReceipt(run, at.rows, "already published")
        while at.reached < at.rows:
            if progress is not None:
                progress(at.reached, at.rows)
            advance = commands.AdvanceImport(SYSTEM_TENANT, at.run, at.reached)
            at = await self._backend.execute(advance)
        if progress is not None:
            progress(at.reached, at.rows)
        return ImportReceipt(run, at.rows, "published")

    async def abort_import(self, run: str) -> int:
        """Gives a run up: it can't be published any more and its objects are deleted.

        Answers how many of its rows were enqueued before, if `import_rows` had begun with it.

        `run` names the import.
        """
        return await self._backend.abort_import(check_run(run))

    async def import_jobs(
        self,
        run: str,
        jobs: Iterable[NewJob],
        *,
        progress: Progress | None = None,
    ) -> ImportReceipt:
        """Writes jobs as objects and publishes them as one run; any number of them.

        Jobs without id and key become one commit; if some have one, all are enqueued in batches.

        `run` names the import: the same one twice is once. `jobs` may be a generator; `progress` is
        told how many are enqueued, and of how many.
        """
        run = check_run(run)
        if progress is not None:
            check_function("progress", progress)
        self._require_imports()
        buffer, objects = RowBuffer(), list[ImportObject]()
        for new in plain_items("jobs", jobs, NEW_JOBS):
            row, group = self._row(new)
            if buffer.add(group, row):
                objects += await self._kept(run, buffer)
        objects += await self._kept(run, buffer)
        manifest = ImportManifest(tuple(objects), buffer.rows, buffer.has_identities)
        if buffer.has_identities:
            return await self.import_rows(run, [manifest], progress=progress)
        return await self.publish_import(run, [manifest])

    async def _kept(self, run: str, buffer: RowBuffer) -> list[ImportObject]:
        cut = buffer.cut()
        if cut is None:
            return []
        data, segments = cut
        return [object_record(await self._backend.keep_import(run, data), data, segments)]

    def _row(self, new: object) -> tuple[Row, Group]:
        if not is_a(new, NewJob):
            raise InvalidJob("jobs", new, NEW_JOBS)
        sealed = self._envelopes.seal(PAYLOAD, new.payload, new.codec)
        if sealed is None:
            size_bytes = len(msgspec.json.encode(new.payload))
            raise PayloadTooLarge("payload of an imported job", size_bytes, size_bytes - 1)
        checked = submission(new, new.id or "", *sealed, None)
        run_at = checked.run_at
        if checked.delay_seconds:
            run_at = self._services.clock.now() + checked.delay_seconds
        row = Row(
            checked.payload, run_at, checked.codec, checked.max_attempts, checked.retry,
            checked.timeout_seconds, checked.meta, checked.trace, checked.id or None, checked.key,
            checked.unique_seconds,
        )  # fmt: skip
        return row, (self.tenant, checked.queue, checked.type, checked.priority)

    def _checked(
        self, manifests: Iterable[ImportManifest]
    ) -> tuple[tuple[ImportObject, ...], bool]:
        self._require_imports()
        given: list[ImportManifest] = []
        for manifest in plain_list("manifests", manifests, _MANIFESTS):
            if not is_a(manifest, ImportManifest):
                raise InvalidJob("manifests", manifest, _MANIFESTS)
            try:
                given.append(as_read(manifest))
            except Unreadable as error:
                raise InvalidInput(f"a manifest can't be read: {error}") from None
        objects = tuple(object for manifest in given for object in manifest.objects)
        return objects, any(manifest.has_identities for manifest in given)

    def _require_imports(self) -> None:
        if not self.capabilities.imports:
            raise Unsupported("bulk imports", self.capabilities.backend)
