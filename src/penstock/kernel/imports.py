"""The runs of bulk imports: what was published, what of it is not admitted yet, what was aborted.

Of a million jobs only the places of their chunks are kept here, and how far each segment is. They
become jobs by `admitted` events, when a claim comes upon them. Runs whose rows have ids or keys of
their own are *staged* instead, and enqueued batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, assert_never

from msgspec import Struct

from penstock.kernel.events import (
    Admitted,
    FillingEnded,
    ImportAborted,
    ImportAdvanced,
    Imported,
    ImportEvent,
    ImportStaged,
)
from penstock.kernel.manifest import ImportObject
from penstock.kernel.segments import SEPARATOR, Head, Segment, Source, Waiting, id_of, segments_of

Key = TypeVar("Key")
Value = TypeVar("Value")


class RunRecord(Struct, frozen=True, omit_defaults=True):
    """What is remembered of a run: enough never to import it twice."""

    status: Literal["published", "aborted"]
    jobs: int = 0
    finished_at: float | None = None
    """When its last row was admitted."""
    query: str | None = None
    """The streaming query it is a batch of: the highest batch is kept for ever, not each run."""


class StagedRun(Struct, frozen=True):
    """A run whose rows are enqueued batch by batch."""

    run: str
    objects: tuple[ImportObject, ...]
    rows: int
    reached: int = 0
    query: str | None = None
    batch: int | None = None


Index: TypeAlias = Callable[[Head], None]


class Imports:
    """All runs of a queue. `begin`, `settle` and `rollback` as of the state that it belongs to."""

    def __init__(self, index: Index, unindex: Index, release: Callable[[str, float], None]) -> None:
        self.runs: dict[str, RunRecord] = {}
        self.queries: dict[str, int] = {}
        """The highest batch that was published of each streaming query."""
        self.sources: dict[tuple[str, str], Source] = {}
        """By tenant and run."""
        self.staged: dict[str, StagedRun] = {}
        self._heads: dict[Segment, Head] = {}
        self._open: dict[str, int] = {}
        """How many unfinished segments each object has."""
        self._index = index
        self._unindex = unindex
        self._release = release
        self._undo: list[Callable[[], None]] | None = None
        self._touched: set[Segment] = set()

    # Looking

    def find(self, tenant: str, id: str) -> Waiting | None:
        """An unadmitted job by its id."""
        run, _, digits = id.rpartition(SEPARATOR)
        source = self.sources.get((tenant, run))
        if source is None or not (digits.isdecimal() and digits.isascii()):
            return None
        row = int(digits)
        segment = source.segment_of(row)
        if segment is None or not segment.holds(row) or id_of(run, row) != id:
            return None
        return Waiting(segment, row)

    def segments(self, tenant: str | None = None) -> Iterator[Segment]:
        """The unfinished ones, in the order of their imports."""
        for source in sorted(self.sources.values(), key=lambda source: source.position):
            if tenant in (None, source.tenant):
                yield from source.segments

    def needed_objects(self) -> set[str]:
        staged = {object.key for run in self.staged.values() for object in run.objects}
        return staged | set(self._open)

    # Applying

    def apply(self, event: ImportEvent) -> None:
        match event:
            case Imported():
                self.publish(event)
            case ImportStaged():
                self.stage(event)
            case ImportAdvanced():
                self.advance(event)
            case ImportAborted():
                self.abort(event)
            case _:
                assert_never(event)

    def publish(self, event: Imported) -> None:
        known = self.runs.get(event.run)
        jobs = event.rows + (known.jobs if known is not None else 0)
        finished_at = None if event.objects else event.at
        self._put(self.runs, event.run, RunRecord("published", jobs, finished_at, event.query))
        self._note_batch(event.query, event.batch)
        if event.objects:
            source = Source(event.tenant, event.run, event.position, event.at)
            self._put(self.sources, (event.tenant, event.run), source)
            for segment in segments_of(source, event.objects):
                self.open(segment)

    def open(self, segment: Segment) -> None:
        """Takes a segment in, new or from a snapshot."""
        segment.source.segments.append(segment)
        self._put(self._open, segment.key, self._open.get(segment.key, 0) + 1)
        self._show(segment)
        self._later(lambda: self._hide(segment))

    def admit(self, event: Admitted) -> None:
        source = self.sources[event.tenant, event.run]
        segment = source.segment_of(event.row)
        assert segment is not None, f"{event.id} was admitted before"
        self._touch(segment)
        if segment.admit(event.row):
            self._hide(segment)
            if segment.is_finished:
                self._finish(segment, event.at)
            else:
                self._show(segment)

    def stage(self, event: ImportStaged) -> None:
        staged = StagedRun(event.run, event.objects, event.rows, 0, event.query, event.batch)
        self._put(self.staged, event.run, staged)

    def advance(self, event: ImportAdvanced) -> None:
        staged = self.staged[event.run]
        if event.reached < staged.rows:
            moved = StagedRun(
                staged.run, staged.objects, staged.rows, event.reached, staged.query, staged.batch
            )
            self._put(self.staged, event.run, moved)
            return
        self._unstage(staged, event.at)
        record = RunRecord("published", staged.rows, event.at, staged.query)
        self._put(self.runs, event.run, record)
        self._note_batch(staged.query, staged.batch)

    def abort(self, event: ImportAborted) -> None:
        staged = self.staged.get(event.run)
        if staged is not None:
            self._unstage(staged, event.at)
        self._put(self.runs, event.run, RunRecord("aborted"))

    def carry(self, event: FillingEnded) -> None:
        """Remembers what another queue has published, so that it is not published here as well."""
        for run, jobs in event.runs.items():
            self._put(self.runs, run, RunRecord("published", jobs, event.at))
        for run in event.runs_aborted:
            self._put(self.runs, run, RunRecord("aborted"))
        for query, batch in event.queries.items():
            self._note_batch(query, batch)

    def forget(self, before: float) -> None:
        """Of what a streaming query has published, the highest batch is enough."""
        for run, record in list(self.runs.items()):
            finished_at = record.finished_at
            if record.query is not None and finished_at is not None and finished_at < before:
                self._drop(self.runs, run)

    # Provisional changes

    def begin(self) -> None:
        self._undo = []

    def settle(self) -> None:
        self._undo = None
        self._touched.clear()

    def rollback(self) -> None:
        undo, self._undo = self._undo or [], None
        for step in reversed(undo):
            step()
        self._touched.clear()

    def _later(self, step: Callable[[], None]) -> None:
        if self._undo is not None:
            self._undo.append(step)

    def _touch(self, segment: Segment) -> None:
        """Remembers how far a segment was when the batch came upon it."""
        if self._undo is None or segment in self._touched:
            return
        self._touched.add(segment)
        reached, ahead = segment.reached, set(segment.ahead)

        def restore() -> None:
            self._hide(segment)
            segment.chunk, segment.ahead = 0, ahead
            segment.go_to(reached)
            self._show(segment)

        self._undo.append(restore)

    def _put(self, mapping: MutableMapping[Key, Value], key: Key, value: Value) -> None:
        self._later(_restoring(mapping, key))
        mapping[key] = value

    def _drop(self, mapping: MutableMapping[Key, Value], key: Key) -> None:
        self._later(_restoring(mapping, key))
        del mapping[key]

    # Heads and ends

    def _show(self, segment: Segment) -> None:
        head = self._heads[segment] = segment.head()
        self._index(head)

    def _hide(self, segment: Segment) -> None:
        head = self._heads.pop(segment, None)
        if head is not None:
            self._unindex(head)

    def _finish(self, segment: Segment, at: float) -> None:
        source = segment.source
        index = source.segments.index(segment)
        del source.segments[index]
        self._later(lambda: source.segments.insert(index, segment))
        if self._open[segment.key] == 1:
            self._drop(self._open, segment.key)
            self._release(segment.key, at)
        else:
            self._put(self._open, segment.key, self._open[segment.key] - 1)
        if source.segments:
            return
        self._drop(self.sources, (source.tenant, source.run))
        if not any(run == source.run for _, run in self.sources):
            known = self.runs[source.run]
            self._put(self.runs, source.run, RunRecord("published", known.jobs, at, known.query))

    def _unstage(self, staged: StagedRun, at: float) -> None:
        self._drop(self.staged, staged.run)
        for object in staged.objects:
            self._release(object.key, at)

    def _note_batch(self, query: str | None, batch: int | None) -> None:
        if query is not None and batch is not None:
            self._put(self.queries, query, max(batch, self.queries.get(query, batch)))


_MISSING: Final[Any] = object()


def _restoring(mapping: MutableMapping[Key, Value], key: Key) -> Callable[[], None]:
    before = mapping.get(key, _MISSING)

    def restore() -> None:
        if before is _MISSING:
            mapping.pop(key, None)
        else:
            mapping[key] = before

    return restore
