"""The live queue in memory: every job that still matters, and the indexes that find it.

`apply` installs events, one by one, and is the only way in. Between `begin` and `settle` what it
installs is provisional: `rollback` takes it all back, which is how a batch that lost its slot
is decided again on fresh state. `seal` closes a commit: it lets go what has outlived its
retention as of the commit's time. All of it is a function of the log alone, so two processes that
have read the same commits hold the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from heapq import heappop, heappush
from typing import assert_never

from penstock.kernel import moves
from penstock.kernel.changes import Changes, Undo
from penstock.kernel.departures import Departed, Departures, behind, left_behind
from penstock.kernel.events import (
    Admitted,
    Adopted,
    Checkpointed,
    Configured,
    ConsumerDropped,
    ConsumerMoved,
    DepartureCarried,
    Enqueued,
    Event,
    FillingEnded,
    ImportEvent,
    JobEvent,
    JobFact,
    KeyCarried,
    MoveEvent,
    Paused,
    QueueEvent,
    Replayed,
    Resumed,
    Swept,
    position_of,
)
from penstock.kernel.imports import Imports
from penstock.kernel.job import ABSENT, Job, State
from penstock.kernel.leases import Leases, seen
from penstock.kernel.pending import Pending
from penstock.kernel.retention import Retention, has_lapsed
from penstock.kernel.segments import Head, Waiting
from penstock.kernel.settings import DEFAULT_SETTINGS, Settings
from penstock.kernel.tenancy import Hold, Scope, Tenancy, hold_of
from penstock.kernel.transitions import apply, born


class QueueState:
    def __init__(self) -> None:
        self.settings: Settings = DEFAULT_SETTINGS
        self.tenants: dict[str, Tenancy] = {}
        self.consumers: dict[str, tuple[int, float]] = {}
        """Registered readers: the position each has reached, and when it said so."""
        self.swept_before = 0.0
        self.released: dict[str, float] = {}
        """Side objects of jobs that have left, and when they did: the log still names them."""
        self.checkpoint_commit = 0
        self.checkpoint_bytes = 0
        self.moves: tuple[moves.Move, ...] = ()
        """Every move that it took part in; the last one may be under way."""
        self.pending = Pending(self.tenants)
        self.imports = Imports(self.pending.show, self.pending.hide, self._release)
        self.leases = Leases()
        self.retention = Retention(self.is_current)
        self.departures = Departures()
        self._left: list[Job] = []
        """Jobs that have left since the last `seal`."""
        self._key_expiries: list[tuple[float, str, Scope, int]] = []
        self._undo: Undo | None = None

    def tenancy(self, tenant: str) -> Tenancy:
        tenancy = self.tenants.get(tenant)
        if tenancy is None:
            tenancy = self.tenants[tenant] = Tenancy(tenant)
        return tenancy

    @property
    def move(self) -> moves.Move | None:
        """The move that closes the queue, if one does."""
        return moves.under_way(self.moves)

    def as_of(self, at: float) -> float:
        """The time by which things lapse: it stands still while the queue is closed."""
        move = self.move
        return at if move is None else min(at, move.as_of)

    def is_current(self, job: Job | Head) -> bool:
        tenancy = self.tenants.get(job.tenant)
        return tenancy is not None and tenancy.jobs.get(job.id) is job

    def find(self, tenant: str, id: str, at: float) -> Job | None:
        """The job, unless it has outlived its retention by now, removed or not."""
        tenancy = self.tenants.get(tenant)
        job = tenancy.jobs.get(id) if tenancy is not None else None
        if job is None or job.ended_at is None:
            return job
        return None if has_lapsed(job, self.settings, self.as_of(at)) else job

    def look(self, tenant: str, id: str, at: float) -> Job | None:
        """The same for whoever only looks: a dead lease that nobody has recorded shows."""
        job = self.find(tenant, id, at)
        if job is None or job.lease_until is None:
            return job
        return seen(job, self.as_of(at), self.settings.clock_skew_seconds)

    def departed(self, tenant: str, id: str, at: float) -> Departed | None:
        """What the latest job of an id has left behind, if it left not long ago, noted or not."""
        tenancy = self.tenants.get(tenant)
        job = tenancy.jobs.get(id) if tenancy is not None else None
        if job is None:
            return self.departures.find(tenant, id, self.as_of(at))
        return left_behind(job, self.settings, self.as_of(at))

    def unadmitted(self, tenant: str, id: str) -> Waiting | None:
        """An imported job that waits to be admitted, unless somebody else has its id."""
        if not self.imports.sources:
            return None
        tenancy = self.tenants.get(tenant)
        if tenancy is None or id in tenancy.jobs:
            return None
        return self.imports.find(tenant, id)

    def holder(self, tenant: str, scope: Scope, at: float) -> Hold | None:
        """Who holds a key now, if anybody."""
        tenancy = self.tenants.get(tenant)
        hold = tenancy.keys.get(scope) if tenancy is not None else None
        if hold is None or (hold.until is not None and hold.until > self.as_of(at)):
            return hold
        assert tenancy is not None
        job = tenancy.jobs.get(hold.id)
        return hold if job is not None and job.life == hold.life and not job.is_terminal else None

    def apply(self, event: Event) -> None:
        if isinstance(event, Enqueued):
            tenancy = self.tenancy(event.tenant)
            before = tenancy.jobs.get(event.id)
            if before is not None:
                # It is dead, or its time was up and no commit had let it go: this one does.
                self._leave(before, event.at)
            departed = self.departures.find(event.tenant, event.id, event.at)
            job = born(event) if departed is None else born(event, departed.operations)
            self._replace(tenancy, None, job)
            if isinstance(event, Adopted):
                self._set("moves", moves.after(self.moves, event))
            if job.key is not None and not job.is_terminal:
                self._hold_key(tenancy, (job.queue, job.type, job.key), hold_of(job))
            elif isinstance(event, Admitted):
                self.imports.admit(event)
        elif isinstance(event, JobFact):
            self._apply_to_job(event)
        else:
            self._apply_to_queue(event)

    def _apply_to_queue(self, event: QueueEvent) -> None:
        if isinstance(event, MoveEvent):
            self._set("moves", moves.after(self.moves, event))
            if isinstance(event, FillingEnded):
                self.imports.carry(event)
            return
        if isinstance(event, ImportEvent):
            self.imports.apply(event)
            return
        match event:
            case Paused():
                self._change_paused(event.tenant, event.queue, paused=True)
            case Resumed():
                self._change_paused(event.tenant, event.queue, paused=False)
            case Configured():
                self._set("settings", event.settings)
            case Checkpointed():
                self._set("checkpoint_commit", event.commit)
                self._set("checkpoint_bytes", event.size_bytes)
            case Swept():
                self._set("swept_before", event.before)
                # A new dict: what this batch released before is taken back in the old one.
                kept = {key: at for key, at in self.released.items() if at >= event.before}
                self._set("released", kept)
                self.imports.forget(event.before)
            case KeyCarried():
                scope = (event.queue, event.type, event.key)
                hold = Hold(event.id, event.life, event.until)
                self._hold_key(self.tenancy(event.tenant), scope, hold)
            case DepartureCarried():
                self.departures.carry(event)
            case ConsumerMoved():
                moved = {event.consumer: (event.reached, event.at)}
                self._set("consumers", {**self.consumers, **moved})
            case ConsumerDropped():
                rest = {name: at for name, at in self.consumers.items() if name != event.consumer}
                self._set("consumers", rest)
            case _:
                assert_never(event)

    def fold(self, at: float, events: Iterable[Event]) -> None:
        """Takes in one whole commit that is known to be true."""
        self.pending.advance(at)
        for event in events:
            self.apply(event)
        self.seal(at)

    def _apply_to_job(self, event: JobEvent) -> None:
        tenancy = self.tenants[event.tenant]
        before = tenancy.jobs[event.id]
        after = apply(before, event)
        self._replace(tenancy, before, after)
        if after.key is not None:
            if isinstance(event, Replayed):
                self._hold_key(tenancy, (after.queue, after.type, after.key), hold_of(after))
            elif after.is_terminal:
                self._free_key(tenancy, after, event.at)

    # Provisional changes

    def begin(self) -> None:
        assert self._undo is None, "one batch at a time"
        self._undo = Undo()
        self.imports.begin()
        self.departures.begin()

    def settle(self) -> None:
        """What was applied since `begin` stands."""
        self._undo = None
        self.imports.settle()
        self.departures.settle()

    def changed(self) -> Changes:
        """What everything since `begin` amounts to."""
        undo = self._undo
        assert undo is not None, "nothing was begun"
        return undo.net(self.departures.changed())

    def rollback(self) -> None:
        """Takes back everything since `begin`."""
        undo = self._undo
        assert undo is not None, "nothing to roll back"
        self._undo = None
        for tenancy, id, old in reversed(undo.jobs):
            # As a copy, so that the old version's entries, which are dead, stay dead.
            self._replace(tenancy, tenancy.jobs.get(id), old and copy(old))
        for tenant, scope, hold in reversed(undo.keys):
            self._hold_key(self.tenants[tenant], scope, hold)
        self._left.clear()
        for job in undo.left:
            self.tenants[job.tenant].queue_counts(job.queue).count_left(job.state, -1)
        for tenant, queue, was_paused in reversed(undo.paused):
            self._change_paused(tenant, queue, paused=was_paused)
        self.imports.rollback()
        undo.take_back_released()
        self.departures.rollback()
        for name, value in undo.fields.items():
            setattr(self, name, value)

    def seal(self, at: float, ended_before: int | None = None) -> list[Job]:
        """Lets go of what has outlived its retention; answers all jobs that left in this commit.

        Before `settle` this, too, can be rolled back.

        `ended_before` keeps jobs whose end is not below that commit (layout `single` archives
        a job only after its end was committed).
        """
        if self.move is None:
            limit = None if ended_before is None else position_of(ended_before, 0)
            for job in self.retention.outlived(self.settings, at):
                if limit is None or job.trail[-1] < limit:
                    self._leave(job, at)
            self._let_keys_go(at)
            self.departures.forget(at)
        self._let_results_go()
        left, self._left = self._left, []
        return left

    # Indexes

    def _replace(self, tenancy: Tenancy, before: Job | None, after: Job | None) -> None:
        """The one place where a job's version changes, with everything that points at it."""
        subject = after or before
        assert subject is not None
        if self._undo is not None:
            self._undo.jobs.append((tenancy, subject.id, before))
        counts = tenancy.queue_counts(subject.queue)
        counts.view = None
        now = counts.now
        if after is None:
            tenancy.let_go(subject)
        else:
            tenancy.jobs[subject.id] = after
            now[after.state] += 1
        if before is not None:
            now[before.state] -= 1
            self._unindex(before)
        else:
            tenancy.lives.add(subject.life, subject.id)
        if after is not None:
            self._index(after)

    def _index(self, job: Job) -> None:
        if job.state is State.PENDING:
            self.pending.add(job)
        elif job.state is State.RUNNING:
            self.leases.add(job)
        else:
            self.retention.add(job)

    def _unindex(self, job: Job) -> None:
        if job.state is State.PENDING:
            self.pending.note_death(job)
        elif job.state is State.RUNNING:
            self.leases.remove(job)
        else:
            self.retention.note_death(job)

    def _leave(self, job: Job, at: float) -> None:
        for key in (job.payload_key, job.result_key):
            if key is not None:
                self._release(key, at)
        self._left.append(job)
        if self._undo is not None:
            self._undo.left.append(job)
        self.departures.remember(job.tenant, job.id, behind(job, self.settings, at))
        tenancy = self.tenants[job.tenant]
        self._replace(tenancy, job, None)
        tenancy.queue_counts(job.queue).count_left(job.state, 1)

    def _release(self, key: str, at: float) -> None:
        if self._undo is not None:
            self._undo.released.append((self.released, key, self.released.get(key)))
        self.released[key] = at

    def _let_results_go(self) -> None:
        retention = self.retention
        while retention.results_bytes > self.settings.results_bytes_max:
            entry = retention.results.first()
            assert entry is not None
            job: Job = entry[-1]
            slim = copy(job)
            slim.result = ABSENT
            self._replace(self.tenants[job.tenant], job, slim)

    # Keys

    def _hold_key(self, tenancy: Tenancy, scope: Scope, hold: Hold | None) -> None:
        self._put_hold(tenancy, scope, hold)
        if hold is not None and hold.until is not None:
            heappush(self._key_expiries, (hold.until, tenancy.name, scope, hold.life))

    def _free_key(self, tenancy: Tenancy, job: Job, at: float) -> None:
        assert job.key is not None
        scope = (job.queue, job.type, job.key)
        hold = tenancy.keys.get(scope)
        if hold is not None and hold.life == job.life and (hold.until or 0) <= at:
            self._put_hold(tenancy, scope, None)

    def _let_keys_go(self, at: float) -> None:
        expiries = self._key_expiries
        while expiries and expiries[0][0] <= at:
            _, tenant, scope, life = heappop(expiries)
            tenancy = self.tenants[tenant]
            hold = tenancy.keys.get(scope)
            if hold is not None and hold.life == life and self.holder(tenant, scope, at) is None:
                self._put_hold(tenancy, scope, None)

    def _put_hold(self, tenancy: Tenancy, scope: Scope, hold: Hold | None) -> None:
        if self._undo is not None:
            self._undo.keys.append((tenancy.name, scope, tenancy.keys.get(scope)))
        if hold is None:
            tenancy.keys.pop(scope, None)
        else:
            tenancy.keys[scope] = hold

    # Everything else

    def _change_paused(self, tenant: str, queue: str, *, paused: bool) -> None:
        tenancy = self.tenancy(tenant)
        if self._undo is not None:
            self._undo.paused.append((tenant, queue, queue in tenancy.paused))
        tenancy.queue_counts(queue).view = None
        if paused:
            tenancy.lanes.pause(queue)
        else:
            tenancy.lanes.resume(queue)

    def _set(self, name: str, value: object) -> None:
        if self._undo is not None:
            self._undo.fields.setdefault(name, getattr(self, name))
        setattr(self, name, value)

    def adopt(self, job: Job) -> None:
        """Installs a job from a snapshot as it is; counters and keys come from there too."""
        tenancy = self.tenancy(job.tenant)
        tenancy.jobs[job.id] = job
        self._index(job)

    def adopt_hold(self, tenant: str, scope: Scope, hold: Hold) -> None:
        self._hold_key(self.tenancy(tenant), scope, hold)
