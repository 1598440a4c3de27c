"""Asking the laws on an executor: the rows of one subject after the other, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from math import inf
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct

from penstock.engines.ledger.log.floor import FIRST_SLOT
from penstock.kernel import invariants
from penstock.kernel.events import Configured
from penstock.kernel.invariants import Committed, Violation
from penstock.kernel.settings import DEFAULT_SETTINGS
from penstock.pipeline.checking.folding import decoded, kept_as_folded, leases_come_back
from penstock.pipeline.checking.laws import JOB, SCOPES, committed, from_floor
from penstock.pipeline.checking.reading import CHAIN, FOUND, TIMES, Row
from penstock.pipeline.checking.scope import Asked
from penstock.wire.commit import decode_event

VIOLATIONS_PER_BATCH: Final = 1_000
FOUND_ROWS: Final = pa.schema(
    [
        ("invariant", pa.int32()),
        ("tenant", pa.string()),
        ("id", pa.string()),
        ("commit", pa.int64()),
        ("position", pa.int64()),
        ("message", pa.string()),
    ]
)

STAMP_SECONDS: Final = 1.0
"""The grain of the stores' stamps."""

_header_decoder: Final = msgspec.json.Decoder(Committed)
_violation_decoder: Final = msgspec.json.Decoder(Violation)


class Judge(Struct, frozen=True, kw_only=True):
    asked: Asked

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (scope, _), rows in groupby(_rows(batches), key=lambda row: row[:2]):
            found = self._judged(scope, rows)
            for start in range(0, len(found), VIOLATIONS_PER_BATCH):
                yield _batch(found[start : start + VIOLATIONS_PER_BATCH])

    def _judged(self, scope: str, rows: Iterator[Row]) -> list[Violation]:
        if scope == TIMES:
            return self._timely(rows)
        lines = (line for _, _, _, line in rows)
        if scope == FOUND:
            return [_violation_decoder.decode(line) for line in lines]
        if scope == CHAIN:
            headers = (_header_decoder.decode(line) for line in lines)
            return invariants.log_is_a_chain(from_floor(headers, self.asked.floor))
        if scope == JOB:
            return self._of_a_job(lines)
        return SCOPES[scope].law(committed(decode_event(line) for line in lines))

    def _of_a_job(self, lines: Iterable[bytes]) -> list[Violation]:
        events, kept = decoded(lines)
        found = SCOPES[JOB].law(committed(events))
        if self.asked.checkpoint is not None:
            found += kept_as_folded(events, kept, self.asked.checkpoint)
        return found + leases_come_back(events, self.asked.newest_at)

    def _timely(self, rows: Iterator[Row]) -> list[Violation]:
        """What was set about clocks comes first; where it was vacuumed, nothing can be said."""
        allowed = DEFAULT_SETTINGS.clock_skew_seconds if self.asked.floor == FIRST_SLOT else inf
        skews: list[float] = []
        for _, _, position, line in rows:
            if position >= 0:
                rest = (_header_decoder.decode(row[3]) for row in rows)
                headers = chain([_header_decoder.decode(line)], rest)
                seconds = max(skews, default=allowed) + STAMP_SECONDS
                return invariants.times_are_the_stores(headers, seconds)
            configured = decode_event(line)
            assert isinstance(configured, Configured)
            skews.append(configured.settings.clock_skew_seconds)
        return []


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batch(found: list[Violation]) -> pa.RecordBatch:
    rows = [{name: getattr(violation, name) for name in FOUND_ROWS.names} for violation in found]
    return pa.RecordBatch.from_pylist(rows, schema=FOUND_ROWS)
