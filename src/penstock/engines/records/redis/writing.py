"""The second half of a turn: a change as comparisons and commands, which one script runs.

The script knows neither jobs nor indexes. It compares the beginnings of some values and, if all are
as they were found, runs the commands that are made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct as Layout
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from penstock.engines.records.bodies import PACKED_TOGETHER_MAX, kept_body
from penstock.engines.records.redis.finding import Finding, wake_fields
from penstock.engines.records.redis.keys import Keys, hold_name, lane_of, member, record_name
from penstock.engines.records.redis.packing import (
    NO_KEY,
    Located,
    Place,
    calls_text,
    charter_digits,
    hold_text,
    key_bytes,
    life_digits,
    mark_of,
    packed_events,
    version_bytes,
)
from penstock.kernel.departures import REMEMBERED_MAX
from penstock.kernel.events import commit_of
from penstock.ports.records import Change, Departure, Record, Removal, Shelf

WORDS_MAX: Final = 2_000
"""Of one command within a script; Lua's stack takes a few thousand."""

LIVES_TOGETHER: Final = 50
"""Ids of one litter, about as many as a page of a list shows; see keys.py."""

FORGOTTEN_MIN: Final = 100
"""How many calls are forgotten with one change at most, or twice as many as are remembered."""

Words: TypeAlias = list[str]
_TEXT: Final = Layout(">BI")
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
        self._new: list[str | Raw] = []
        self._replacing: list[str | Raw] = []
        self._others: list[str | Raw] = []
        """Names and values in turn: of those that must not be there yet, of those that replace
        another, and of the rest."""
        self._replaced: list[bytes] = []
        """The versions of those that are replaced."""
        self._compared: Words = []
        self._beginnings: list[str | Raw] = []
        self._left: dict[str, Words] = {}
        """By index, the members that leave it."""
        self._come: dict[str, Words] = {}
        """By index, times and members in turn."""
        self._claims_left: Counter[str] = Counter()
        self._claims: dict[str, Words] = {}
        """By claim, the ids of what it has got."""
        self._born: dict[str, list[tuple[int, str]]] = {}
        self._gone: dict[str, list[tuple[int, str]]] = {}
        """By tenant, lives and ids."""
        self._tails: list[tuple[str, str, str]] = []
        """Tenants, lanes, and when the last is due that comes there."""
        self._before: list[Words] = []
        self._after: list[Words] = []
        self._lanes: set[tuple[str, str]] = set()
        """Those from which something was taken or to which something came, by tenant."""

    def arguments(self, writer: str) -> list[bytes]:
        """Those of `write.lua`."""
        change = self._change
        self._put()
        self._remove()
        for key, members in self._left.items():
            self._before += _chunks("ZREM", members, key)
        for key, members in self._come.items():
            self._after += _chunks("ZADD", members, key)
        self._hold()
        self._note()
        version = charter_digits(change.charter_found) if change.charter_found else ""
        self._compare(self._keys.charter, version)
        self._compare_assumed()
        for one in change.unheard:
            known = "" if one.departed is None else calls_text(one.departed)
            self._compare(self._keys.calls(record_name(one.tenant, one.id)), known)
        commit: dict[str, Any] = {
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
            "new": len(self._new) // 2,
            "replaced": _text(b"".join(self._replaced)),
            "compared": self._compared,
            "beginnings": self._beginnings,
            "before": self._before,
            "records": self._new + self._replacing + self._others,
            "after": self._after,
            "claims": [(key, "/".join(ids), len(ids)) for key, ids in self._claims.items() if ids],
            "claims_left": list(self._claims_left.items()),
            "gone": [(tenant, _texts(each)) for tenant, each in self._gone.items()],
            "born": [(tenant, list(self._litters(each))) for tenant, each in self._born.items()],
            "tails": self._tails,
            "lanes": [(tenant, *lane.split("/")) for tenant, lane in sorted(self._lanes)],
            "is_for_all": change.wakes is None or change.charter is not None,
            "wakes": [wake_fields(one) for one in change.wakes or ()],
        }
        return [_encode(commit), packed_events(change.events)]

    def _put(self) -> None:
        """The hot loop of a turn: what records have in common is worked out once."""
        change, located, root = self._change, self._located, self._keys.job("")
        version, is_packed = version_bytes(change.commit), len(change.puts) <= PACKED_TOGETHER_MAX
        removed = {(gone.tenant, gone.id) for gone in change.removals}
        targets: dict[tuple[object, ...], _Target] = {}
        paths: dict[tuple[Place, _Target], _Path] = {}
        at, at_text = 0.0, "0.0"
        found, found_version = 0, version_bytes(0)
        for put in change.puts:
            record = put.record
            where = (
                record.tenant, record.queue, record.type, record.priority, record.shelf,
                record.claim,
            )  # fmt: skip
            target = targets.get(where)
            if target is None:
                target = targets[where] = self._new_target(record)
            if record.at != at:
                at, at_text = record.at, repr(record.at)
            life, name = f"{record.life:018d}", f"{record.tenant}/{record.id}"
            target.members += (at_text, life + name)
            target.latest = max(target.latest, at)
            body = kept_body(record, len(change.puts)) if is_packed else record.body
            length, key = (NO_KEY, b"") if record.key is None else key_bytes(record.key)
            value = _text(b"".join((version, life.encode(), length, target.mark, key, body)))
            if put.found is None:
                self._born.setdefault(record.tenant, []).append((record.life, record.id))
                is_taken = removed and (record.tenant, record.id) in removed
                (self._others if is_taken else self._new).extend((root + name, value))
                claimed = target.claimed
            else:
                self._replacing += (root + name, value)
                if put.found != found:
                    found, found_version = put.found, version_bytes(put.found)
                self._replaced.append(found_version)
                place = located[record.life].place
                path = paths.get((place, target))
                if path is None:
                    path = paths[place, target] = self._new_path(place, target)
                if path.left is not None:
                    path.left.append(life + name)
                if path.claim_left is not None:
                    self._claims_left[path.claim_left] += 1
                claimed = path.claimed
            if claimed is not None:
                claimed.append(record.id)
        self._tails = [
            (target.tenant, target.place.lane, repr(target.latest))
            for target in targets.values()
            if target.place.shelf == Shelf.PENDING
        ]

    def _new_target(self, record: Record) -> _Target:
        tenant, shelf, lane = record.tenant, record.shelf, lane_of(record)
        if shelf is Shelf.PENDING:
            self._lanes.add((tenant, lane))
        members = self._come.setdefault(self._keys.index(tenant, shelf, lane), [])
        claimed = None
        if record.claim:
            claimed = self._claims.setdefault(self._keys.claim(tenant, record.claim), [])
        mark = mark_of(shelf, lane, record.claim or "")
        return _Target(tenant, Place(shelf, lane, record.claim or ""), mark, members, claimed)

    def _new_path(self, place: Place, target: _Target) -> _Path:
        keys, tenant = self._keys, target.tenant
        path = _Path()
        if (place.shelf, place.lane) != (target.place.shelf, target.place.lane):
            path.left = self._left.setdefault(keys.index(tenant, place.shelf, place.lane), [])
            if place.shelf == Shelf.PENDING:
                self._lanes.add((tenant, place.lane))
        if place.claim != target.place.claim:
            path.claimed = target.claimed
            path.claim_left = keys.claim(tenant, place.claim) if place.claim else None
        return path

    def _remove(self) -> None:
        keys, gone = self._keys, Words()
        for one in self._change.removals:
            name, place = record_name(one.tenant, one.id), self._located[one.life].place
            self._compare(keys.job(name), _text(version_bytes(one.version)))
            gone.append(keys.job(name))
            index = keys.index(one.tenant, place.shelf, place.lane)
            self._left.setdefault(index, []).append(member(one.life, name))
            self._gone.setdefault(one.tenant, []).append((one.life, one.id))
            if place.shelf == Shelf.PENDING:
                self._lanes.add((one.tenant, place.lane))
            if place.claim:
                self._claims_left[keys.claim(one.tenant, place.claim)] += 1
        self._before += _chunks("DEL", gone)

    def _litters(self, born: list[tuple[int, str]]) -> Iterator[tuple[str, str, int, bool]]:
        """Those that are kept together: the first life, their ids, how many bytes a litter of such
        ids may have, and if all of them began with this commit. Others, which only tests have, each
        come by themselves."""
        commit = self._change.commit
        fresh = sorted(one for one in born if commit_of(one[0]) == commit)
        for first in range(0, len(fresh), LIVES_TOGETHER):
            each = fresh[first : first + LIVES_TOGETHER]
            ids = "".join([f"{id}/" for _, id in each])
            bytes_max = len(ids) * LIVES_TOGETHER // len(each) + 1
            yield life_digits(each[0][0]), ids, bytes_max, True
        if len(fresh) < len(born):
            for life, id in born:
                if commit_of(life) != commit:
                    yield life_digits(life), f"{id}/", (len(id) + 1) * LIVES_TOGETHER, False

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
        for count in change.counts:
            field = f"{count.queue}/{count.type}/{count.state.value}"
            for kind, number in (("now", count.now), ("left", count.left)):
                if number:
                    after.append(
                        ["HINCRBY", keys.counts(count.tenant), f"{field}/{kind}", str(number)]
                    )
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
            version = charter_digits(change.commit)
            self._others += (keys.charter, _text(version.encode() + change.charter))

    def _compare_assumed(self) -> None:
        """What was taken to be as it was known to be, and stays as it is."""
        if not self._finding.assumed:
            return
        changed = {put.record.life for put in self._change.puts}
        for (tenant, id), (stored, _) in self._finding.assumed.items():
            if stored.life not in changed:
                version = version_bytes(self._located[stored.life].version)
                self._compare(self._keys.job(record_name(tenant, id)), _text(version))

    def _compare(self, key: str, beginning: str | Raw) -> None:
        self._compared.append(key)
        self._beginnings.append(beginning)


def replaced(change: Change) -> Iterator[tuple[Record | Removal, int]]:
    """Each record that a change replaces or removes, and the version that it has to have."""
    for gone in change.removals:
        yield gone, gone.version
    for put in change.puts:
        if put.found is not None:
            yield put.record, put.found


class _Target:
    """Where records go: what is the same for all of them."""

    __slots__ = ("claimed", "latest", "mark", "members", "place", "tenant")

    def __init__(
        self, tenant: str, place: Place, mark: bytes, members: Words, claimed: Words | None
    ) -> None:
        self.tenant = tenant
        self.place = place
        self.mark = mark
        self.members = members
        self.claimed = claimed
        """The ids of what its claim has got, if it has one."""
        self.latest = 0.0
        """Of their times."""


class _Path:
    """From one place to another: what has to be noted of each record that goes there."""

    __slots__ = ("claim_left", "claimed", "left")

    def __init__(self) -> None:
        self.left: Words | None = None
        self.claim_left: str | None = None
        self.claimed: Words | None = None


def _text(value: bytes) -> Raw:
    """Any bytes as a text of MessagePack: servers read no other kind of bytes."""
    return Raw(_TEXT.pack(0xDB, len(value)) + value)


def _chunks(command: str, words: Sequence[str], *key: str) -> Iterator[Words]:
    for first in range(0, len(words), WORDS_MAX):
        yield [command, *key, *words[first : first + WORDS_MAX]]


def _last_commit(departure: Departure) -> int:
    return commit_of(departure.trail[-1] if departure.trail else departure.life)


def _texts(lives: list[tuple[int, str]]) -> list[tuple[str, str]]:
    return [(life_digits(life), id) for life, id in sorted(lives)]
