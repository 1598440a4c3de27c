"""The writes, as steps: each compares versions and writes, and knows nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from penstock.engines.records.bodies import kept_body
from penstock.engines.records.postgres.arrays import blobs, floats, integers, texts
from penstock.engines.records.postgres.finding import SCOPE
from penstock.engines.records.postgres.searching import Kinds, columns
from penstock.engines.records.postgres.steps import Script, Step
from penstock.kernel.departures import Departed
from penstock.kernel.events import commit_of
from penstock.ports.counters import CountChange, minute_of
from penstock.ports.records import (
    Change,
    Departure,
    HoldChange,
    Put,
    Record,
    Remembered,
    Shelf,
    Unheard,
)
from penstock.ports.wakes import Wake
from penstock.wire.packed import pack

VACUUM_ROWS: Final = 10_000
"""How many are deleted by one statement: less than a second's work."""
_TAKEN: Final[Kinds] = {"ids": texts, "lives": integers, "untils": floats, "lapses": floats}
_DEPARTED: Final[Kinds] = {
    "tenants": texts, "ids": texts, "lives": integers, "last": integers, "trails": texts,
}  # fmt: skip
_REMEMBERED: Final[Kinds] = {
    "tenants": texts, "ids": texts, "untils": floats, "operations": blobs,
}  # fmt: skip
_WOKEN: Final[Kinds] = {"tenants": texts, "queues": texts, "types": texts, "jobs": integers}
_EVERYBODY: Final = -1
FOR_ALL: Final = "everybody"
"""What is announced where whoever waits has to look."""
_encode: Final = msgspec.json.Encoder().encode
_COUNTED: Final[Kinds] = {
    "tenants": texts, "queues": texts, "types": texts, "states": texts, "now": integers,
    "gone": integers,
}  # fmt: skip
_DUE: Final[Kinds] = {
    "tenants": texts, "queues": texts, "types": texts, "minutes": integers, "records": integers,
}  # fmt: skip


class Writer:
    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql

    def write(self, change: Change, shard: int) -> Iterator[Step]:
        """In an order that all turns keep, with what others may wait for last."""
        if change.removals:
            yield self._remove(change)
        begun = [put for put in change.puts if put.found is None]
        if begun:
            yield self._insert(begun, change.commit)
        if change.unheard:
            yield self._compare_remembered(change.unheard)
        gone_on = [put for put in change.puts if put.found is not None]
        if gone_on:
            yield self._update(gone_on, change.commit)
        if change.holds:
            yield from self._write_holds(change.holds)
            yield self._step("free_lapsed_keys", lapsed_at=change.lapsed_at)
        if change.departures:
            yield self._depart(change.departures)
        if change.remembered:
            yield self._remember(change.remembered)
            yield self._step("forget_calls", lapsed_at=change.lapsed_at)
        if change.sides:
            sides = sorted(change.sides.items())
            yield self._step("name_sides", **columns(sides, keys=texts, released=floats))
        if change.charter is not None:
            yield self._step("set_charter", charter=change.charter, number=change.commit)
        if change.counts:
            yield self._count(change.counts, shard)
        if change.due:
            rows = [astuple(one) for one in change.due]
            yield self._step("count_due", shard=shard, **columns(rows, **_DUE))
            yield self._step("forget_minutes", minute=minute_of(change.at))
        yield self._step(
            "add_commit",
            number=change.commit,
            at=change.at,
            clock=change.clock,
            events=pack(change.events),
            shard=shard,
            completed=change.completed,
        )

    def tell(self, channel: str, teller: str, change: Change) -> Iterator[Step]:
        """Of a change that stands."""
        is_for_all = change.wakes is None or change.charter is not None
        yield self._step("tell", channel=channel, teller=FOR_ALL if is_for_all else teller)
        if change.wakes:
            yield self._wake("wake", change.wakes)

    def tell_within(self, channel: str, change: Change) -> Iterator[Step]:
        """The same of one that may yet be taken back; nobody hears of it before it stands."""
        yield self._step(
            "tell", channel=channel, teller="" if change.wakes is not None else FOR_ALL
        )
        if change.wakes:
            yield self._wake("wake_within", change.wakes)

    def wake(self, wakes: Sequence[Wake]) -> Script[None]:
        yield [self._wake("wake", wakes)]

    def _wake(self, name: str, wakes: Sequence[Wake]) -> Step:
        rows = [
            (one.tenant, one.queue, one.type, _EVERYBODY if one.jobs is None else one.jobs)
            for one in wakes
        ]
        return self._step(name, **columns(rows, **_WOKEN))

    def vacuum(self, written_before: float, below: int, released_before: float) -> Script[int]:
        yield [self._step("raise_first_commit", written_before=written_before, below=below)]
        # Apart from that and in slices: others have to write the head, and no transaction of ours
        # may take long.
        dropped = yield from self._all_of("drop_commits")
        yield from self._all_of("forget_departures")
        yield [self._step("forget_sides", released_before=released_before)]
        return dropped

    def _all_of(self, name: str) -> Script[int]:
        done = 0
        while True:
            results = yield [self._step(name, count=VACUUM_ROWS)]
            done += (some := int(results[0][0][0]))
            if some < VACUUM_ROWS:
                return done

    def _step(self, name: str, **parameters: Any) -> Step:
        return Step(self._sql[name], parameters or None)

    def _remove(self, change: Change) -> Step:
        rows = sorted((one.tenant, one.id, one.version) for one in change.removals)
        kinds: Kinds = {"tenants": texts, "ids": texts, "founds": integers}
        return self._step("remove", count=len(rows), **columns(rows, **kinds))

    def _insert(self, puts: Sequence[Put], commit: int) -> Step:
        records = sorted((put.record for put in puts), key=lambda one: (one.tenant, one.id))
        due, kept = _times(records)
        return self._step(
            "insert",
            version=commit,
            tenants=texts([one.tenant for one in records]),
            ids=texts([one.id for one in records]),
            lives=integers([one.life for one in records]),
            queues=texts([one.queue for one in records]),
            types=texts([one.type for one in records]),
            keys=blobs([None if one.key is None else one.key.encode() for one in records]),
            priorities=integers([one.priority for one in records]),
            shelves=texts([one.shelf for one in records]),
            due=floats(due),
            kept=floats(kept),
            claims=texts([one.claim for one in records]),
            bodies=blobs([one.body for one in records]),
        )

    def _update(self, puts: Sequence[Put], commit: int) -> Step:
        puts = sorted(puts, key=lambda put: put.record.life)
        records = [put.record for put in puts]
        due, kept = _times(records)
        return self._step(
            "update",
            version=commit,
            count=len(puts),
            tenants=texts([one.tenant for one in records]),
            ids=texts([one.id for one in records]),
            founds=integers([put.found for put in puts]),
            shelves=texts([one.shelf for one in records]),
            due=floats(due),
            kept=floats(kept),
            claims=texts([one.claim for one in records]),
            bodies=blobs([kept_body(one, len(puts)) for one in records]),
        )

    def _write_holds(self, changes: Sequence[HoldChange]) -> Iterator[Step]:
        changes = sorted(changes, key=lambda one: (one.tenant, one.scope))
        freed = [(one.tenant, *_scope(one), one.found) for one in changes if one.found is not None]
        if freed:
            yield self._step(
                "free_keys", count=len(freed), **columns(freed, **SCOPE, lives=integers)
            )
        taken = [
            (one.tenant, *_scope(one), one.after.hold.id, one.after.hold.life,
             one.after.hold.until, one.after.lapses_at)
            for one in changes if one.after is not None
        ]  # fmt: skip
        if taken:
            yield self._step("take_keys", **columns(taken, **SCOPE, **_TAKEN))

    def _depart(self, departures: Sequence[Departure]) -> Step:
        each = {(one.tenant, one.id, one.life): one for one in departures}
        rows = [
            (tenant, id, one.life, commit_of(one.trail[-1] if one.trail else one.life),
             "{" + ",".join(map(str, one.trail)) + "}")
            for (tenant, id, _), one in sorted(each.items())
        ]  # fmt: skip
        return self._step("depart", **columns(rows, **_DEPARTED))

    def _remember(self, remembered: Sequence[Remembered]) -> Step:
        rows = [
            (one.tenant, one.id, *_departed(one.departed))
            for one in sorted(remembered, key=lambda one: (one.tenant, one.id))
        ]
        return self._step("remember", **columns(rows, **_REMEMBERED))

    def _compare_remembered(self, unheard: Sequence[Unheard]) -> Step:
        rows = [
            (one.tenant, one.id, *_departed(one.departed))
            for one in sorted(unheard, key=lambda one: (one.tenant, one.id))
        ]
        return self._step("compare_remembered", count=len(rows), **columns(rows, **_REMEMBERED))

    def _count(self, counts: Sequence[CountChange], shard: int) -> Step:
        rows = [
            (one.tenant, one.queue, one.type, one.state.value, one.now, one.left) for one in counts
        ]
        return self._step("count", shard=shard, **columns(rows, **_COUNTED))


def _scope(one: HoldChange) -> tuple[str, str, bytes]:
    queue, type, key = one.scope
    return queue, type, key.encode()


def _departed(departed: Departed | None) -> tuple[float | None, bytes | None]:
    return (None, None) if departed is None else (departed.until, _encode(departed.operations))


def _times(records: Sequence[Record]) -> tuple[list[float | None], list[float | None]]:
    """`due_at` and `kept_at`: each record has one of the two."""
    due = [one.at if one.shelf is Shelf.PENDING else None for one in records]
    kept = [None if one.shelf is Shelf.PENDING else one.at for one in records]
    return due, kept
