"""The names of all objects of layout `tasks`, relative to the queue's root.

Besides the marker and what every engine keeps (`engines/names.py`):

    charter.json                            settings, pauses, readers: what holds for all jobs
    tasks/{shard}/{name}.json               a job with its events, the truth
    keys/{hash}.json                        who holds a key
    ready/{shard}/{minute}/{entry}          it is pending, and due in that minute
    leases/{shard}/{minute}/{claim}/{entry}   it is running, and its lease does not end before
    seen/{shard}.json                       what was known of its tasks some time ago

A name is the tenant's and the job's, joined by a dot, in the alphabet of `encoded`; a long one is
cut and ends in its digest. A task's shard is the first hex digit of the digest of its name, a
lease's that of its claim, so that a claim that is asked for again finds its leases with one
listing. Minutes count from the epoch, in nine digits.

An entry is empty: its name says it all. That of a pending job begins with what orders it (priority,
milliseconds within the minute, position) and goes on with digests of its queue and type; all end in
the position that the entry stands for and in the task's name. So each stretch of pending or running
has an entry of its own, which can be told from those before and after it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from msgspec import Struct

from penstock.engines.names import NAME_CHARACTERS_MAX, cut, encoded
from penstock.kernel.tenancy import Scope

TASKS: Final = "tasks/"
KEYS: Final = "keys/"
READY: Final = "ready/"
LEASES: Final = "leases/"
SUMMARIES: Final = "seen/"
CHARTER: Final = "charter.json"
SHARDS: Final = "0123456789abcdef"

INDEX_MODES: Final = ("index-only", "hybrid", "scan")
"""Where claims look for candidates; the first is the default."""

TENANT_CHARACTERS_MAX: Final = 64
_CLAIM_CHARACTERS: Final = 16
_TAG_CHARACTERS: Final = 6
_SUFFIX: Final = ".json"
_PRIORITY_OFFSET: Final = 2**31
_MINUTE_SECONDS: Final = 60


class Ready(Struct, frozen=True, order=True):
    """An entry of the ready index, in the order of claims."""

    priority: int
    due_at: float
    position: int
    tags: str
    name: str

    @property
    def key(self) -> str:
        minute, milliseconds = _split(self.due_at)
        order = f"{self.priority + _PRIORITY_OFFSET:010d}-{milliseconds:05d}-{self.position:019d}"
        return f"{READY}{shard_of(self.name)}/{minute:09d}/{order}-{self.tags}-{self.name}"


class Leased(Struct, frozen=True):
    """An entry of the lease index."""

    claim: str
    until: float
    position: int
    name: str

    @property
    def key(self) -> str:
        minute, milliseconds = _split(self.until)
        entry = f"{milliseconds:05d}-{self.position:019d}-{self.name}"
        return f"{lease_folder(self.claim, minute)}{entry}"


def task_name(tenant: str, id: str) -> str:
    return f"{tenant_prefix(tenant)}{cut(encoded(id), NAME_CHARACTERS_MAX)}"


def tenant_prefix(tenant: str) -> str:
    """What the names of all tasks of a tenant, and of nobody else's, begin with."""
    return f"{cut(encoded(tenant), TENANT_CHARACTERS_MAX)}."


def task_key(name: str) -> str:
    return f"{TASKS}{shard_of(name)}/{name}{_SUFFIX}"


def name_in(key: str) -> str:
    """The name of the task whose object this is."""
    return key.rpartition("/")[2].removesuffix(_SUFFIX)


def shard_of(name: str) -> str:
    return _digest(name)[0]


def shards_in(said: str | None) -> str:
    """The shards that something like `0-7` or `0,4,c` names; `ValueError` if it is not one."""
    if said is None:
        return SHARDS
    named: set[str] = set()
    for part in said.lower().split(","):
        first, dash, last = part.strip().partition("-")
        digits = [_digit(first), _digit(last if dash else first)]
        if digits != sorted(digits):
            raise ValueError(said)
        named.update(SHARDS[digits[0] : digits[1] + 1])
    return "".join(sorted(named))


def key_key(tenant: str, scope: Scope) -> str:
    return f"{KEYS}{_digest('/'.join(map(encoded, (tenant, *scope))))}{_SUFFIX}"


def summary_key(shard: str) -> str:
    return f"{SUMMARIES}{shard}{_SUFFIX}"


def shard_in_summary(key: str) -> str:
    """The shard whose summary this is."""
    return key.removeprefix(SUMMARIES).removesuffix(_SUFFIX)


def tag(name: str) -> str:
    """Stands for the name of a queue or type in an entry; others may have the same one."""
    return _digest(name)[:_TAG_CHARACTERS]


def tags(queue: str, type: str) -> str:
    return tag(queue) + tag(type)


def claim_tag(operation: str) -> str:
    return _digest(operation)[:_CLAIM_CHARACTERS]


def lease_folder(claim: str, minute: int) -> str:
    return f"{LEASES}{claim[0]}/{minute:09d}/{claim}/"


def minute_of(at: float) -> int:
    return int(at // _MINUTE_SECONDS)


def minute_in(key: str) -> int:
    """The minute that an entry is filed under."""
    return int(key.split("/")[2])


def ready_in(key: str) -> Ready:
    """The entry of this name; `ValueError` if it is not one."""
    _, _, minute, entry = key.split("/")
    priority, milliseconds, position, marks, name = entry.split("-", 4)
    due_at = _joined(minute, milliseconds)
    return Ready(int(priority) - _PRIORITY_OFFSET, due_at, int(position), marks, name)


def leased_in(key: str) -> Leased:
    _, _, minute, claim, entry = key.split("/")
    milliseconds, position, name = entry.split("-", 2)
    return Leased(claim, _joined(minute, milliseconds), int(position), name)


def _digit(said: str) -> int:
    if len(said) != 1:
        raise ValueError(said)
    return SHARDS.index(said)


def _split(at: float) -> tuple[int, int]:
    # Rounded down: an entry may be looked at too early, never too late.
    minute, rest = divmod(int(at * 1_000), _MINUTE_SECONDS * 1_000)
    return minute, rest


def _joined(minute: str, milliseconds: str) -> float:
    return int(minute) * _MINUTE_SECONDS + int(milliseconds) / 1_000


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
