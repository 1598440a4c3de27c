"""The second half of a turn: a change as comparisons and commands, which one script runs.

The script knows neither jobs nor indexes. It compares the beginnings of some values and, if all are
as they were found, runs the commands that are made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from penstock.engines.records.bodies import kept_body
from penstock.engines.records.redis.finding import Finding, wake_fields
from penstock.engines.records.redis.keys import Keys, hold_name, lane_of, member, record_name
from penstock.engines.records.redis.packing import (
    Located,
    calls_text,
    hold_text,
    life_digits,
    packed_events,
    record_bytes,
    version_digits,
)
from penstock.kernel.departures import REMEMBERED_MAX
from penstock.kernel.events import commit_of
from penstock.ports.records import Change, Departure, Shelf

WORDS_MAX: Final = 2_000
"""Of one command within a script; Lua's stack takes a few thousand."""

FORGOTTEN_MIN: Final = 100
"""How many calls are forgotten with one change at most, or twice as many as are remembered."""

Words: TypeAlias = list[str]
_encode: Final = msgspec.msgpack.Encoder().encode
_encode_json: Final = msgspec.json.Encoder().encode


class Writing:
    """One change on its way."""

    def __init__(
        self,
        keys: Keys,
        finding: Finding,
        change: Change,
        located: Mapping[int, Located],
        events_bytes_max: int,
    ) -> None:
        self._keys = keys
        self._events_bytes_max = events_bytes_max
        self._finding = finding
        self._change = change
        self._located = located
        self._new, self._replacing, self._others = _Written(), _Written(), _Written()
        self._replaced: Words = []
        self._compared: Words = []
        self._beginnings: Words = []
        self._before: list[Words] = []
        self._after: list[Words] = []
        self._lanes: set[tuple[str, str]] = set()
        """Those from which something was taken or to which something came, by tenant."""

    def arguments(self, writer: str) -> list[bytes]:
        """Those of `write.lua`."""
        change = self._change
        self._put()
        self._remove()
        self._hold()
        self._note()
        version = version_digits(change.charter_found) if change.charter_found else ""
        self._compare(self._keys.charter, version)
        for one in change.unheard:
            known = "" if one.departed is None else calls_text(one.departed)
            self._compare(self._keys.calls(record_name(one.tenant, one.id)), known)
        commit = {
            "turn": self._finding.turn,
            "number": str(change.commit),
            "token": self._finding.token,
            "at": repr(change.at),
            "clock": repr(change.clock),
            "completed": str(change.completed),
            "lapsed_at": repr(change.lapsed_at),
            "remembered_max": REMEMBERED_MAX,
            "forgets": max(FORGOTTEN_MIN, 2 * len(change.remembered)),
            "writer": writer,
            "vacuum_before": repr(change.vacuum_before),
            "vacuum_below": str(change.vacuum_below),
            "events_bytes_max": self._events_bytes_max,
            "new": len(self._new.keys),
            "replaced": self._replaced,
            "compared": self._compared,
            "beginnings": self._beginnings,
            "before": self._before,
            "records": self._new.keys + self._replacing.keys + self._others.keys,
            "after": self._after,
            "lanes": sorted(self._lanes),
            "is_for_all": change.wakes is None or change.charter is not None,
            "wakes": [wake_fields(one) for one in change.wakes or ()],
        }
        values = self._new.values + self._replacing.values + self._others.values
        return [_encode(commit), packed_events(change.events), *values]

    def _put(self) -> None:
        """The hot loop of a turn: what records have in common is worked out once."""
        keys, located, version = self._keys, self._located, version_digits(self._change.commit)
        together = len(self._change.puts)
        removed = {(gone.tenant, gone.id) for gone in self._change.removals}
        left, claims_left, claims, born = _Grouped(), _Grouped(), _Grouped(), _Grouped()
        places: dict[tuple[str, Shelf, str], _Place] = {}
        for put in self._change.puts:
            record = put.record
            tenant, shelf, lane = record.tenant, record.shelf, lane_of(record)
            place = places.get((tenant, shelf, lane))
            if place is None:
                place = _Place(keys.index(tenant, shelf, lane), lane.encode())
                places[tenant, shelf, lane] = place
            life, name = life_digits(record.life), record_name(tenant, record.id)
            body = kept_body(record, together)
            key, value = keys.job(name), record_bytes(record, place.lane, version, life, body)
            place.members += repr(record.at), life + name
            if put.found is not None:
                self._replacing.add(key, value)
                self._replaced.append(version_digits(put.found) + life)
                at = located[record.life]
                if at.shelf != shelf or at.lane != lane:
                    left.add(keys.index(tenant, at.shelf, at.lane), life + name)
                    if at.shelf == Shelf.PENDING:
                        self._lanes.add((tenant, at.lane))
                if at.claim and at.claim != record.claim:
                    claims_left.add(keys.claim(tenant, at.claim), name)
            else:
                born.add(keys.lives(tenant), life + record.id)
                is_taken = removed and (tenant, record.id) in removed
                (self._others if is_taken else self._new).add(key, value)
            if record.claim:
                claims.add(keys.claim(tenant, record.claim), name)
        self._before += [*left.commands("ZREM"), *claims_left.commands("SREM")]
        for (tenant, shelf, lane), place in places.items():
            self._after += _chunks("ZADD", place.members, place.index)
            if shelf is Shelf.PENDING:
                self._lanes.add((tenant, lane))
        self._after += claims.commands("SADD")
        for key, members in born.groups():
            self._after += _chunks("ZADD", [word for one in members for word in ("0", one)], key)

    def _remove(self) -> None:
        keys, gone = self._keys, Words()
        left, claims_left = _Grouped(), _Grouped()
        for one in self._change.removals:
            name, at = record_name(one.tenant, one.id), self._located[one.life]
            self._compare(keys.job(name), version_digits(one.version) + life_digits(one.life))
            gone.append(keys.job(name))
            left.add(keys.index(one.tenant, at.shelf, at.lane), member(one.life, name))
            left.add(keys.lives(one.tenant), life_digits(one.life) + one.id)
            if at.shelf == Shelf.PENDING:
                self._lanes.add((one.tenant, at.lane))
            if at.claim:
                claims_left.add(keys.claim(one.tenant, at.claim), name)
        self._before += [
            *_chunks("DEL", gone), *left.commands("ZREM"), *claims_left.commands("SREM")
        ]  # fmt: skip

    def _hold(self) -> None:
        for hold in self._change.holds:
            name = hold_name(hold.tenant, hold.scope)
            key, after = self._keys.hold(name), hold.after
            self._compare(key, "" if hold.found is None else life_digits(hold.found))
            self._after.append(["DEL", key] if after is None else ["SET", key, hold_text(after)])
            if after is not None and after.lapses_at is not None:
                self._after.append(["ZADD", self._keys.lapsing, repr(after.lapses_at), name])
            elif hold.found is not None:
                self._after.append(["ZREM", self._keys.lapsing, name])

    def _note(self) -> None:
        """What is known besides the records."""
        change, keys, after = self._change, self._keys, self._after
        # By queue: how many there are of a type its lanes know.
        for count in change.counts:
            field = f"{count.queue}/{count.state.value}"
            after.append(["HINCRBY", keys.counts(count.tenant), f"{field}/now", str(count.now)])
            after.append(["HINCRBY", keys.counts(count.tenant), f"{field}/left", str(count.left)])
        after += _chunks("SADD", sorted({count.tenant for count in change.counts}), keys.tenants)
        for departure in change.departures:
            name = record_name(departure.tenant, departure.id)
            life, text = str(departure.life), _encode_json(departure).decode()
            after.append(["HSET", keys.departure(name), life, text])
            after.append(["ZADD", keys.departed, str(_last_commit(departure)), f"{name}/{life}"])
        for one in change.remembered:
            name = record_name(one.tenant, one.id)
            after.append(["SET", keys.calls(name), calls_text(one.departed)])
            after.append(["ZADD", keys.forgettable, repr(one.departed.until), name])
        for key, released_at in change.sides.items():
            after.append(
                ["HSET", keys.sides, key, "" if released_at is None else repr(released_at)]
            )
        if change.charter is not None:
            self._others.add(keys.charter, version_digits(change.commit).encode() + change.charter)

    def _compare(self, key: str, beginning: str) -> None:
        self._compared.append(key)
        self._beginnings.append(beginning)


def replaced(change: Change) -> Iterator[tuple[str, int, int]]:
    """Of each record that a change replaces or removes: its name, life and version."""
    for gone in change.removals:
        yield record_name(gone.tenant, gone.id), gone.life, gone.version
    for put in change.puts:
        if put.found is not None:
            yield record_name(put.record.tenant, put.record.id), put.record.life, put.found


class _Place:
    """An index, with the records that go there."""

    __slots__ = ("index", "lane", "members")

    def __init__(self, index: str, lane: bytes) -> None:
        self.index = index
        self.lane = lane
        self.members: Words = []


class _Written:
    """Values to be set, with their keys."""

    def __init__(self) -> None:
        self.keys: Words = []
        self.values: list[bytes] = []

    def add(self, key: str, value: bytes) -> None:
        self.keys.append(key)
        self.values.append(value)


class _Grouped:
    """Words by the key that their command goes to."""

    def __init__(self) -> None:
        self._groups: dict[str, Words] = {}

    def add(self, key: str, word: str) -> None:
        group = self._groups.get(key)
        if group is None:
            self._groups[key] = [word]
        else:
            group.append(word)

    def groups(self) -> Iterable[tuple[str, Words]]:
        return self._groups.items()

    def commands(self, command: str) -> Iterator[Words]:
        for key, words in self._groups.items():
            yield from _chunks(command, words, key)


def _chunks(command: str, words: Sequence[str], *key: str) -> Iterator[Words]:
    for first in range(0, len(words), WORDS_MAX):
        yield [command, *key, *words[first : first + WORDS_MAX]]


def _last_commit(departure: Departure) -> int:
    return commit_of(departure.trail[-1] if departure.trail else departure.life)
