"""Histories of a queue: random, from one seed, made by the real engines in no time.

They play in 2030. A pipeline that looks at them has the real clock, which is behind that, and
commit times never go back: so what it commits has the time of the commit before. To the queue that
is a clock which was set back, and the next commit in 2030 one that has run for years.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from msgspec import Raw

from penstock.address import parse
from penstock.engines.ledger.engine import LedgerEngine
from penstock.engines.ledger.layouts import open_journal
from penstock.engines.ledger.marker import ensure_marker
from penstock.engines.records.engine import RecordsEngine
from penstock.engines.records.tasks.engine import TasksEngine
from penstock.kernel.commands import (
    AbortImport,
    Ack,
    AdvanceImport,
    Archive,
    Beat,
    Cancel,
    Claim,
    Configure,
    Enqueue,
    Expire,
    Failure,
    Heartbeat,
    Nack,
    Pause,
    PublishImport,
    Release,
    Replay,
    Resume,
    Return,
    StageImport,
    Submission,
    Success,
    Verdict,
)
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import ABSENT, Job, State
from penstock.kernel.manifest import Row as ImportRow
from penstock.ports.backend import Backend, Filter
from penstock.runtime.services import Services
from penstock.stores.local import local_store
from penstock.testing.clock import FakeClock
from penstock.testing.stamped_store import Stamped
from penstock.wire.imports import Group, encode_rows, object_record
from penstock.wiring import open_backend
from tests.pipeline import backends

NEW_YEAR_2030 = 1_893_456_000.0
TENANTS = ("acme", "globex")
QUEUES = ("default", "images", "mail")
TYPES = ("resize", "send", "index", "bill")
WORKERS = ("w1", "w2", "w3", None)
ROUND_JOBS = 400


@dataclass
class History:
    """A queue that jobs go through, a few hundred at a time."""

    folder: Path
    seed: int
    kind: backends.Backend = backends.LOG
    clock: FakeClock = field(default_factory=lambda: FakeClock(NEW_YEAR_2030 + 79_000.0))
    made: int = 0
    done: list[str] = field(default_factory=list)
    ended: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in TENANTS})

    def __post_init__(self) -> None:
        self.luck = random.Random(self.seed)
        self.stamps: dict[str, float] = {}

    @property
    def url(self) -> str:
        return self.kind.url(self.folder)

    def grow(self, jobs: int) -> None:
        """The same as `add`, for tests that have no loop."""
        asyncio.run(self.add(jobs))

    async def add(self, jobs: int) -> None:
        """So many more jobs are enqueued; most end, some come again."""
        async with self.opened() as engine:
            until = self.made + jobs
            while self.made < until:
                await self._round(engine, min(ROUND_JOBS, until - self.made))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Backend]:
        engine = await self._engine(self._services())
        await engine.start()
        try:
            yield engine
        finally:
            await engine.stop()

    def _services(self) -> Services:
        if self.kind.layout != "tasks":
            return Services(clock=self.clock, luck=self.luck.random, new_secret=self._name)
        # Puts at once draw in any order, and the story is to be the same each time.
        luck = random.Random(self.made)
        return Services(
            clock=self.clock,
            luck=luck.random,
            new_secret=lambda: f"{luck.getrandbits(128):032x}",
        )

    async def _engine(self, services: Services) -> Backend:
        if self.kind.timed is not None:
            return RecordsEngine(self.kind.timed(self.folder, services, self.stamps), services)
        if self.kind.layout is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            return open_backend(parse(self.url, {}), services)
        raw = local_store(str(self.folder), fsync=False)
        # Files have the machine's time, which is not that of the story.
        store = Stamped(raw, self.clock, self.stamps)
        if self.kind.layout == "tasks":
            await ensure_marker(store, "tasks", services)
            return TasksEngine(store, services, on_close=raw.close)
        return LedgerEngine(
            lambda listener: open_journal(store, self.kind.layout, services, listener), services
        )

    def _name(self) -> str:
        return f"{self.luck.getrandbits(128):032x}"

    async def _round(self, engine: Backend, jobs: int) -> None:
        luck, tenant = self.luck, self.luck.choice(TENANTS)
        if luck.random() < 0.4 and engine.capabilities.imports:
            await self._import(engine, jobs)
        else:
            await engine.execute(Enqueue(tenant, [self._submission() for _ in range(jobs)]))
        if luck.random() < 0.1:
            queue = luck.choice(QUEUES)
            await engine.execute(Pause(tenant, queue))
            await engine.execute(Resume(tenant, queue))
        if luck.random() < 0.05:
            await engine.execute(Configure(SYSTEM_TENANT, {"result_ttl_seconds": 600.0}))
        for _ in range(3):
            self._pass(luck.choice((0.5, 20.0, 300.0)))
            await self._work(engine, luck.choice(TENANTS), luck.randrange(2 * jobs))
        self._pass(luck.choice((1.0, 90.0, 900.0)))
        await engine.execute(Expire(tenant))
        await self._again(engine, tenant)

    async def _import(self, engine: Backend, jobs: int) -> None:
        """As a run, of all tenants at once; now and then with ids, or as the batch of a query."""
        luck, run = self.luck, self._name()
        has_ids = luck.random() < 0.3
        groups: dict[Group, list[ImportRow]] = {}
        for _ in range(jobs):
            job = self._submission()
            group = (luck.choice(TENANTS), job.queue, job.type, job.priority)
            run_at = self.clock.now() + job.delay_seconds if job.delay_seconds else None
            row = ImportRow(
                job.payload, run_at, max_attempts=job.max_attempts, meta=job.meta, trace=job.trace,
                id=job.id if has_ids else None, key=job.key if has_ids else None,
            )  # fmt: skip
            groups.setdefault(group, []).append(row)
        data, segments = encode_rows(sorted(groups.items(), key=lambda item: item[0]), 50)
        objects = (object_record(await engine.keep_import(run, data), data, segments),)
        batch: tuple[Any, Any] = ("query", self.made) if luck.random() < 0.5 else (None, None)
        if has_ids:
            at = await engine.execute(StageImport(SYSTEM_TENANT, run, objects, *batch))
            while at.reached < at.rows:
                at = await engine.execute(AdvanceImport(SYSTEM_TENANT, run, at.reached))
        else:
            await engine.execute(PublishImport(SYSTEM_TENANT, run, objects, *batch))
        await engine.execute(AbortImport(SYSTEM_TENANT, self._name()))

    def _pass(self, seconds_max: float) -> None:
        self.clock.jump(round(self.luck.uniform(0.001, seconds_max), 6))

    def _submission(self) -> Submission:
        luck = self.luck
        self.made += 1
        return Submission(
            self._id(),
            luck.choice(TYPES),
            Raw(b'{"number":%d}' % self.made),
            queue=luck.choice(QUEUES),
            priority=luck.choice((0, 0, 0, 5, -3)),
            max_attempts=luck.choice((1, 2, 4)),
            delay_seconds=luck.choice((0.0, 0.0, 0.0, 45.5)),
            meta={"batch": luck.randrange(5)} if luck.random() < 0.2 else None,
            key=f"key-{luck.randrange(10**6)}" if luck.random() < 0.1 else None,
            trace="00-abc" if luck.random() < 0.05 else None,
        )

    def _id(self) -> str:
        """Now and then that of a job that was done long ago, which begins another life."""
        if len(self.done) > 2_000 and self.luck.random() < 0.02:
            return self.done.pop(0)
        return str(UUID(int=self.luck.getrandbits(128)))

    async def _work(self, engine: Backend, tenant: str, count: int) -> None:
        luck = self.luck
        claim = Claim(tenant, self._name(), count + 1, 60.0, worker=luck.choice(WORKERS))
        claimed = await engine.execute(claim)
        self._pass(5.0)
        luck.shuffle(claimed)
        groups: dict[str, list[Job]] = {}
        fates = ("ack",) * 12 + ("nack",) * 3 + ("fail", "release", "snooze", "cancel", "leave")
        for job in claimed:
            groups.setdefault(luck.choice(fates), []).append(job)
        for fate in sorted(groups):
            await self._settle(engine, tenant, fate, groups[fate])
            self._pass(1.0)

    async def _settle(self, engine: Backend, tenant: str, fate: str, jobs: list[Job]) -> None:
        match fate:
            case "ack":
                beats = [Beat(job.id, job.lease, 60.0, 0.5) for job in jobs[:3] if job.lease]
                await engine.execute(Heartbeat(tenant, beats))
                result = Raw(b'{"ok":true}') if self.luck.random() < 0.5 else ABSENT
                done = [Success(job.id, job.lease, result) for job in jobs if job.lease]
                await engine.execute(Ack(tenant, done))
                self.done += [job.id for job in jobs]
            case "nack" | "fail":
                failures = [self._failure(job, fate == "nack") for job in jobs]
                self._note(tenant, jobs, await engine.execute(Nack(tenant, failures)))
            case "release":
                back = [Return(job.id, job.lease) for job in jobs if job.lease]
                await engine.execute(Release(tenant, back))
            case "snooze":
                until = self.clock.now() + 120.0
                back = [Return(job.id, job.lease, until) for job in jobs if job.lease]
                await engine.execute(Release(tenant, back))
            case "cancel":
                ids = [job.id for job in jobs]
                self._note(tenant, jobs, await engine.execute(Cancel(tenant, ids)))
            case _:
                assert fate == "leave"

    def _failure(self, job: Job, retry: bool) -> Failure:
        luck = self.luck
        message = luck.choice(
            (
                f"connection to 10.0.0.{luck.randrange(256)}:{luck.randrange(9999)} timed out",
                f"can't open 'file-{luck.randrange(10**6)}.png': no such file",
                f"job {job.id} has 0x{luck.getrandbits(40):x} in {luck.getrandbits(64):016x}",
                'unexpected "token" at line ' + str(luck.randrange(500)),
                "Grüße aus Köln — 数字 7",
            )
        )
        assert job.lease is not None
        kind = luck.choice(("ValueError", "TimeoutError"))
        return Failure(
            job.id, job.lease, message, kind, retry, traceback=f"in line {luck.randrange(99)}\n"
        )

    def _note(self, tenant: str, jobs: list[Job], answers: list[Any]) -> None:
        for job, answer in zip(jobs, answers, strict=True):
            state = answer.state if isinstance(answer, Verdict) else answer
            if state in ("failed", "cancelled"):
                self.ended[tenant].append(job.id)

    async def _again(self, engine: Backend, tenant: str) -> None:
        """Replays, archives, and cancels what waits: some of it for another attempt."""
        luck, ended = self.luck, self.ended[tenant]
        luck.shuffle(ended)
        replayed, ended[:] = ended[:20], ended[20:]
        await engine.execute(Replay(tenant, replayed))
        await engine.execute(Archive(tenant, ended[:3]))
        pending = engine.jobs(tenant, Filter(state=State.PENDING))
        waiting = [job.id async for job in pending]
        await engine.execute(Cancel(tenant, luck.sample(waiting, min(5, len(waiting)))))
