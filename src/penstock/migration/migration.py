"""The protocol of a move, step by step. Killed anywhere and run again, it goes on where it was.

1. The target begins to be filled: from here on it is closed to everybody else, so that what is
   found in the way of the jobs is all there is. Then ids and keys are compared; on a conflict the
   filling is aborted, and nothing has happened.
2. One commit closes the source; where there is none over a whole queue, each job is closed by
   itself after it, and `MoveQueue` is answered when all are. Whoever still has it open, or opens it
   again, is told where the queue is. It is frozen, so everything that follows can be repeated.
3. Jobs are adopted, a batch a commit, in the order of claims; side objects are copied before.
   What was adopted before is not adopted again. A job whose side object is gone comes as it is:
   nobody can decode it there either.
4. Counts and digests of both sides are compared.
5. One commit opens the target, with pauses, settings and what is known of bulk imports.

No job can run on both sides: the target gives out none before step 5, the source none after
step 2. The source keeps everything; deleting it is its owner's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from penstock.engines.names import data_key, digest_in, size_in
from penstock.errors import (
    BeingFilled,
    Corrupt,
    MoveConflict,
    MoveProblem,
    MoveUnverified,
    ObjectNotFound,
    PenstockError,
    RunProblem,
)
from penstock.kernel.commands import (
    AbortFilling,
    Adopt,
    BeginFilling,
    CarriedKey,
    CarryDepartures,
    CarryKeys,
    EndFilling,
    FindConflicts,
    MoveQueue,
    Newcomer,
    ReopenQueue,
)
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import Job
from penstock.kernel.moves import Move, Phase, under_way
from penstock.migration.reading import batches, in_order, whole
from penstock.migration.tally import Count, Tally, dense
from penstock.ports.backend import Backend, Contents, Filter, TenantContents
from penstock.runtime.services import Services

logger = logging.getLogger(__name__)

JOBS_PER_BATCH: Final = 1_000
COPIES_AT_ONCE: Final = 16
CONFLICTS_MAX: Final = 1_000
"""How many are looked for before the others are left to the imagination."""


class Done(Protocol):
    def __call__(self, count: int, of: int | None = None, /) -> None:
        """So many more are done."""


Progress: TypeAlias = Callable[[str, int | None], AbstractContextManager[Done]]


class End(Struct, frozen=True):
    """One of the two queues, and what people call it."""

    backend: Backend
    url: str


class Report(Struct, frozen=True, omit_defaults=True):
    status: Literal["moved", "moved before", "would move"]
    source: str
    target: str
    jobs: int
    counts: list[Count]
    digest: str = ""
    keys: int = 0
    """Held by jobs that have ended."""
    paused: list[str] = []
    """As tenant/queue."""
    keeps_settings: bool = False
    """The target had settings of its own, which stay."""
    conflicts: list[str] = []
    without_value: int = 0
    """Jobs whose large payload or result was gone: they came along without it."""


@contextmanager
def quietly(what: str, total: int | None) -> Iterator[Done]:
    yield lambda count, of=None: None


class Migration:
    def __init__(
        self,
        source: End,
        target: End,
        services: Services | None = None,
        *,
        batch: int = JOBS_PER_BATCH,
        progress: Progress = quietly,
    ) -> None:
        self._source, self._target = source, target
        self._services = services or Services()
        self._batch = batch
        self._progress = progress
        self._without_value: set[tuple[str, str]] = set()

    async def run(self) -> Report:
        source, target = self._source.backend, self._target.backend
        contents = await source.contents()
        closed = _closed_for(contents, self._target.url)
        id = self._services.new_secret() if closed is None else closed.id
        move = await target.execute(BeginFilling(SYSTEM_TENANT, id, self._source.url, contents.at))
        if closed is None:
            closed = await self._close_source(move, contents)
        else:
            # Where jobs are closed one by one, some may not be yet.
            closed = await source.execute(MoveQueue(SYSTEM_TENANT, closed.id, self._target.url))
        if closed.id != move.id:
            # Another queue had this address when the target began to be filled from it.
            raise BeingFilled(move.peer)
        contents = await source.contents()
        if move.phase is Phase.FILLED:
            return self._report("moved before", await self._count(contents), contents)
        sent = await self._send(move, contents)
        await self._carry_keys(move, contents)
        await self._carry_departures(move, contents)
        arrived = await self._arrived(move, contents)
        difference = sent.difference(arrived)
        if difference is not None:
            raise MoveUnverified(difference)
        await target.execute(self._opening(closed, sent, contents))
        keeps = (await target.contents()).settings != contents.settings
        report = self._report("moved", sent, contents)
        return replace(report, keeps_settings=keeps, without_value=len(self._without_value))

    async def preview(self) -> Report:
        """What `run` would do, and what is in its way. Changes nothing."""
        contents = await self._source.backend.contents()
        _closed_for(contents, self._target.url)
        tally = await self._count(contents)
        conflicts = await self._conflicts(contents)
        return replace(self._report("would move", tally, contents), conflicts=conflicts)

    async def abort(self) -> bool:
        """Takes back a move of which nothing has arrived. False: there was none."""
        source, target = self._source.backend, self._target.backend
        closed = _closed_for(await source.contents(), self._target.url)
        filling = under_way((await target.contents()).moves)
        is_ours = filling is not None and filling.peer == self._source.url
        move = closed or (filling if is_ours else None)
        if move is None:
            return False
        # First where jobs could come to run, so that they never can on both sides.
        await target.execute(AbortFilling(SYSTEM_TENANT, move.id, self._source.url))
        await source.execute(ReopenQueue(SYSTEM_TENANT, move.id))
        return True

    # The steps

    async def _close_source(self, move: Move, contents: Contents) -> Move:
        source = self._source.backend
        if move.jobs:
            raise BeingFilled(move.peer)
        try:
            await self._require_no_conflicts(contents)
            closed = await source.execute(MoveQueue(SYSTEM_TENANT, move.id, self._target.url))
            # What came in meanwhile is looked at as well, now that nothing more can.
            await self._require_no_conflicts(await source.contents())
        except (MoveProblem, RunProblem):
            await self._target.backend.execute(
                AbortFilling(SYSTEM_TENANT, move.id, self._source.url)
            )
            await source.execute(ReopenQueue(SYSTEM_TENANT, move.id))
            raise
        return closed

    async def _send(self, move: Move, contents: Contents) -> Tally:
        tally = Tally()
        total = sum(tenant.jobs for tenant in contents.tenants)
        with self._progress("moving", total) as done:
            for tenant in (each.tenant for each in contents.tenants):
                async for jobs in self._whole_batches(tenant):
                    for job in jobs:
                        tally.add(job)
                    await self._adopt(move, tenant, jobs)
                    done(len(jobs))
        return tally

    async def _adopt(self, move: Move, tenant: str, jobs: list[Job]) -> None:
        if move.jobs:
            # It was interrupted: what had arrived need not be copied again.
            known = await self._target.backend.get(tenant, [job.id for job in jobs])
            has_arrived = [one is not None and one.life > move.position for one in known]
            jobs = [job for job, has in zip(jobs, has_arrived, strict=True) if not has]
        if not jobs:
            return
        limit = asyncio.Semaphore(COPIES_AT_ONCE)
        copied = await asyncio.gather(*(self._with_copies(job, limit) for job in jobs))
        outcomes = await self._target.backend.execute(Adopt(tenant, move.id, copied))
        for outcome in outcomes:
            if isinstance(outcome, PenstockError):
                raise outcome

    async def _with_copies(self, job: Job, limit: asyncio.Semaphore) -> Job:
        """The job as the target keeps it: one line of JSON, and its large values there."""
        job = replace(job, payload=dense(job.payload), result=dense(job.result))
        keys = (job.payload_key, job.result_key)
        if keys == (None, None):
            return job
        async with limit:
            payload_key, result_key = [
                None if key is None else await self._copied(job, key) for key in keys
            ]
        return replace(job, payload_key=payload_key, result_key=result_key)

    async def _copied(self, job: Job, key: str) -> str:
        """The copy's name. What is gone gets a name that nothing has, so it is gone there, too."""
        try:
            data = await self._source.backend.fetch(key)
        except (ObjectNotFound, Corrupt) as error:
            logger.warning("job %s is moved without a large value of its own: %s", job.id, error)
            self._without_value.add((job.tenant, job.id))
            services = self._services
            now, nonce = services.clock.now(), services.new_secret()
            return data_key(job.id, now, digest_in(key), size_in(key), nonce)
        return await self._target.backend.keep(job.id, data)

    async def _carry_keys(self, move: Move, contents: Contents) -> None:
        for tenant in contents.tenants:
            for start in range(0, len(tenant.keys), self._batch):
                held = tenant.keys[start : start + self._batch]
                ids = [hold.id for _, hold in held]
                jobs = await self._source.backend.get(tenant.tenant, ids)
                carried = [
                    CarriedKey(
                        *scope, hold.id, hold.until, job is not None and job.life == hold.life
                    )
                    for (scope, hold), job in zip(held, jobs, strict=True)
                    if hold.until is not None
                ]
                await self._target.backend.execute(CarryKeys(tenant.tenant, move.id, carried))

    async def _carry_departures(self, move: Move, contents: Contents) -> None:
        for tenant in contents.tenants:
            for start in range(0, len(tenant.departed), self._batch):
                departed = dict(tenant.departed[start : start + self._batch])
                carry = CarryDepartures(tenant.tenant, move.id, departed)
                await self._target.backend.execute(carry)

    async def _arrived(self, move: Move, contents: Contents) -> Tally:
        tally, target = Tally(), self._target.backend
        total = sum(tenant.jobs for tenant in contents.tenants)
        with self._progress("comparing", total) as done:
            for tenant in (each.tenant for each in contents.tenants):
                async for jobs in batches(_adopted(target, tenant, move), self._batch):
                    for job in await whole(target, tenant, jobs):
                        tally.add(job)
                    done(len(jobs))
        return tally

    def _opening(self, closed: Move, sent: Tally, contents: Contents) -> EndFilling:
        has_imports = self._target.backend.capabilities.imports
        return EndFilling(
            SYSTEM_TENANT,
            closed.id,
            sent.jobs,
            sent.digest,
            closed.fences,
            contents.settings,
            {tenant.tenant: tenant.paused for tenant in contents.tenants if tenant.paused},
            contents.runs if has_imports else {},
            contents.runs_aborted if has_imports else (),
            contents.queries if has_imports else {},
        )

    # Looking

    async def _count(self, contents: Contents) -> Tally:
        tally = Tally()
        total = sum(tenant.jobs for tenant in contents.tenants)
        with self._progress("counting", total) as done:
            for tenant in contents.tenants:
                async for jobs in self._whole_batches(tenant.tenant):
                    for job in jobs:
                        tally.add(job)
                    done(len(jobs))
        return tally

    async def _require_no_conflicts(self, contents: Contents) -> None:
        if conflicts := await self._conflicts(contents):
            raise MoveConflict(conflicts)

    async def _conflicts(self, contents: Contents) -> list[str]:
        """The first ones. Where the target has nothing, there is nothing to look for."""
        there = {each.tenant: each for each in (await self._target.backend.contents()).tenants}
        found: list[str] = []
        for tenant in contents.tenants:
            theirs = there.get(tenant.tenant)
            if theirs is None or not (theirs.jobs or theirs.keys):
                continue
            async for newcomers in self._newcomers(tenant):
                found += await self._target.backend.execute(FindConflicts(tenant.tenant, newcomers))
                if len(found) >= CONFLICTS_MAX:
                    return found
        return found

    async def _newcomers(self, tenant: TenantContents) -> AsyncIterator[list[Newcomer]]:
        async for jobs in batches(in_order(self._source.backend, tenant.tenant), self._batch):
            yield [
                Newcomer(job.id, job.queue, job.type, None if job.is_terminal else job.key)
                for job in jobs
            ]
        # Their holders may be among the jobs above; a free id conflicts with nothing.
        for start in range(0, len(tenant.keys), self._batch):
            yield [Newcomer("", *scope) for scope, _ in tenant.keys[start : start + self._batch]]

    async def _whole_batches(self, tenant: str) -> AsyncIterator[list[Job]]:
        source = self._source.backend
        async for jobs in batches(in_order(source, tenant), self._batch):
            yield await whole(source, tenant, jobs)

    def _report(
        self, status: Literal["moved", "moved before", "would move"], tally: Tally, on: Contents
    ) -> Report:
        return Report(
            status=status,
            source=self._source.url,
            target=self._target.url,
            jobs=tally.jobs,
            counts=tally.counts,
            digest=tally.digest,
            keys=sum(len(tenant.keys) for tenant in on.tenants),
            paused=[f"{tenant.tenant}/{queue}" for tenant in on.tenants for queue in tenant.paused],
        )


def _closed_for(contents: Contents, target: str) -> Move | None:
    """The move that has closed the source for this target; whatever else closes it is raised."""
    move = under_way(contents.moves)
    if move is not None and (move.phase is not Phase.MOVED or move.peer != target):
        raise move.refusal()
    return move


async def _adopted(target: Backend, tenant: str, move: Move) -> AsyncIterator[Job]:
    """The jobs that the move has brought, and none that were there before."""
    for archived in (False, True):
        async for job in target.jobs(tenant, Filter(archived=archived)):
            if job.life > move.position:
                yield job
