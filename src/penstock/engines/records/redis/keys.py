"""The names of everything that a queue has in Redis. Nobody else makes one.

All begin with `{prefix}/`: the braces are a hash tag, which keeps them on one node of a cluster.
No tenant, id, queue or type has a slash; a key or a claim is any text and comes last.

    format                          the level of what is here
    head                            hash: number, run (of the server, which gave it), commit, at,
                                    clock, completed, first_commit, events_bytes
    charter                         version, then the charter
    turns                           sorted set of the turns under way, by number
    reserved                        hash: of a turn, how many of the first records of each index it
                                    hides from others, and until when
    job/TENANT/ID                   one record
    lane/TENANT/QUEUE/TYPE/PRIORITY sorted set of pending records, by when they are due
    lanes/TENANT                    hash: of each QUEUE/TYPE/PRIORITY, r or l and its entry
    ready/TENANT, later/TENANT      boards, sorted sets of entries: of the lanes that begin with
                                    something that was due, by priority; of the others, by time
    ready/TENANT/queue/QUEUE, ready/TENANT/type/TYPE, and `later` so: those of one queue or type
    tails/TENANT                    sorted set of lanes, by when the last that ever came is due
    shelf/SHELF                     sorted set of all other records, by their time
    lives/TENANT                    sorted set of litters, each the first of some lives in a row
    lives/TENANT/LIFE               a litter: the ids of the records that have these lives, each
                                    between two slashes
    claim/TENANT/CLAIM              hash: by commit, the ids that a claim got with it; `left`: how
                                    many of them it still has
    hold/TENANT/QUEUE/TYPE/KEY      who holds a key
    lapsing                         sorted set of holds that time alone frees
    tenants                         set of all that ever had a job
    counts/TENANT                   hash: QUEUE/TYPE/STATE/now and QUEUE/TYPE/STATE/left
    buckets, bucket/B, commit/NUMBER  sorted set of the buckets that there are; the commits with the
                                    numbers from B x 32 on; the events of one if they are many
    departed, departure/TENANT/ID   where the histories of jobs that left are: TENANT/ID/LIFE by
                                    last commit; of an id, a hash by life
    forgettable, calls/TENANT/ID    which calls began the lives of jobs that left not long ago, by
                                    when they are forgotten
    line, waiters                   who waits for work, by since when; hash: what each waits for
    sides                           hash: side objects and when they were released
    objects, object/KEY             the objects beside the records
    changed                         the channel on which commits are announced
    wake/HANDLE                     the channel on which one handle is told of work

A member of an index is the life in 18 digits and the record's TENANT/ID, so that records with the
same time are in the order of their lives. An entry is what a lane begins with, its time (8 bytes)
and life, and the lane: QUEUE/TYPE/PRIORITY.
"""

from __future__ import annotations

from typing import Final

from penstock.kernel.tenancy import Scope
from penstock.ports.records import Record, Shelf

LIFE_DIGITS: Final = 18


class Keys:
    def __init__(self, prefix: str) -> None:
        self.root = root = f"{{{prefix}}}/"
        self.format = root + "format"
        self.head = root + "head"
        self.charter = root + "charter"
        self.tenants = root + "tenants"
        self.lapsing = root + "lapsing"
        self.departed = root + "departed"
        self.forgettable = root + "forgettable"
        self.sides = root + "sides"
        self.objects = root + "objects"
        self.changed = root + "changed"

    def job(self, name: str) -> str:
        return f"{self.root}job/{name}"

    def index(self, tenant: str, shelf: str, lane: str) -> str:
        """The one that a record is in."""
        if shelf == Shelf.PENDING:
            return f"{self.root}lane/{tenant}/{lane}"
        return f"{self.root}shelf/{shelf}"

    def claim(self, tenant: str, claim: str) -> str:
        return f"{self.root}claim/{tenant}/{claim}"

    def hold(self, name: str) -> str:
        return f"{self.root}hold/{name}"

    def counts(self, tenant: str) -> str:
        return f"{self.root}counts/{tenant}"

    def departure(self, name: str) -> str:
        return f"{self.root}departure/{name}"

    def calls(self, name: str) -> str:
        return f"{self.root}calls/{name}"

    def wake(self, handle: str) -> str:
        return f"{self.root}wake/{handle}"

    def object(self, key: str) -> str:
        return f"{self.root}object/{key}"


def record_name(tenant: str, id: str) -> str:
    return f"{tenant}/{id}"


def member(life: int, name: str) -> str:
    return f"{life:0{LIFE_DIGITS}d}{name}"


def lane_of(record: Record) -> str:
    return f"{record.queue}/{record.type}/{record.priority}"


def hold_name(tenant: str, scope: Scope) -> str:
    queue, type, key = scope
    return f"{tenant}/{queue}/{type}/{key}"


def hold_parts(name: str) -> tuple[str, Scope]:
    tenant, queue, type, key = name.split("/", 3)
    return tenant, (queue, type, key)
