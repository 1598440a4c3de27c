"""Running records as this process has written them, so that they need not be read again.

Whoever claims a job acks it, and knows its record until somebody else has changed it. So a turn may
decide on what is known here; its write compares the version of every record that it has taken from
here, also of those that it leaves as they are, and writes nothing if one is not the same. A turn
that would write nothing has compared nothing: it is taken again with what the server has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.engines.records.redis.keys import lane_of
from penstock.engines.records.redis.packing import Located, Place
from penstock.ports.records import Change, Shelf, Stored

RECORDS_MAX: Final = 4_096
BODY_BYTES_MAX: Final = 4_096
"""What is known takes no more than some 16 MiB."""


class Known:
    def __init__(self) -> None:
        self._records: dict[tuple[str, str], tuple[Stored, Located]] = {}

    def take(self, ids: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[Stored, Located]]:
        """What is known of these, by tenant and id. It is not known from then on."""
        records = self._records
        return {name: records.pop(name) for name in ids if name in records} if records else {}

    def note(self, change: Change) -> None:
        """What a change has written. The keys of records that have one would have to be read."""
        records, commit = self._records, change.commit
        places: dict[tuple[str, str, int, str | None], Located] = {}
        for put in change.puts:
            record = put.record
            if record.shelf is not Shelf.RUNNING or record.key is not None:
                continue
            if len(record.body) > BODY_BYTES_MAX:
                continue
            where = (record.queue, record.type, record.priority, record.claim)
            located = places.get(where)
            if located is None:
                place = Place(record.shelf.value, lane_of(record), record.claim or "")
                located = places[where] = Located(commit, place)
            stored = Stored(record.life, commit, record.shelf.value, record.body)
            records[record.tenant, record.id] = stored, located
        while len(records) > RECORDS_MAX:
            del records[next(iter(records))]
