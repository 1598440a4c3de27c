"""How the golden files were made: every kind of event, in both layouts, by a queue of one seed.

    python -m tests.wire.golden_queue

writes what is not there yet. What is there stays for ever: a new format level gets a new folder.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Raw

import penstock
from penstock import NewJob, Queue, RetryPolicy
from penstock.engines.ledger.log.floor import raise_floor
from penstock.kernel.commands import (
    AbortFilling,
    Adopt,
    BeginFilling,
    CarriedKey,
    CarryDepartures,
    CarryKeys,
    EndFilling,
    MoveQueue,
    NoteCheckpoint,
    ReopenQueue,
    StageImport,
    Sweep,
)
from penstock.kernel.departures import Departed
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import AttemptError, Job, Lease, State
from penstock.kernel.manifest import Chunk, SegmentRecord
from penstock.kernel.settings import Settings
from penstock.kernel.state import QueueState
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import claim_one
from penstock.testing.factories import seeded_services
from penstock.wire.commit import decode_commit
from penstock.wire.imports import object_record
from penstock.wire.level import FORMAT_LEVEL
from penstock.wire.snapshot import checkpoint_of

GOLDEN = Path(__file__).parent / "golden"
AT_ONCE = RetryPolicy(initial_seconds=0, max_seconds=0)


async def live_through_everything(queue: Queue, clock: FakeClock) -> None:
    """All that can happen to a queue, once."""
    await queue.configure(result_ttl_seconds=600)
    await queue.enqueue(
        "resize", {"id": 7, "größe": [1.5, None]}, id="image 7", queue="images", key="img-7",
        unique_seconds=3600, priority=-5, max_attempts=3, retry=AT_ONCE, timeout_seconds=12.5,
        meta={"customer": "Ärzte & Söhne"}, trace="00-0af7651916cd43dd8448eb211c80319c-01",
    )  # fmt: skip
    await queue.enqueue_many([NewJob("send", b"\x00\xff", id=f"mail {n}") for n in range(3)])
    await queue.enqueue("send", {"packed": b"\x01"}, id="packed", codec="msgpack", delay_seconds=60)
    job = await claim_one(queue, queues=["images"], worker="w1")
    await queue.heartbeat(job)
    await queue.heartbeat(job, progress=0.25)
    await queue.release(job)
    await queue.snooze(await claim_one(queue, queues=["images"]), clock.now())
    await queue.nack(await claim_one(queue, queues=["images"]), "boom", kind="ValueError")
    await claim_one(queue, queues=["images"])
    await clock.advance(32)
    await queue.nack(await claim_one(queue, queues=["images"]), "bang", retry=False)
    await queue.archive("image 7")
    await queue.unarchive("image 7")
    await queue.replay("image 7")
    await queue.ack(await claim_one(queue, queues=["images"], worker="w2"), {"ok": True})
    await queue.ack(await claim_one(queue, types=["send"]), b"\x02")
    await queue.cancel("mail 1")
    await queue.pause("reports")
    await queue.resume("reports")
    await queue.pause("images")
    await queue.move_consumer("spark", 3_000_000)
    await queue.move_consumer("gone", 1_000_000)
    await queue.drop_consumer("gone")
    await queue._backend.execute(NoteCheckpoint(SYSTEM_TENANT, 5, 1234))
    await queue._backend.execute(Sweep(SYSTEM_TENANT, clock.now() - 3600))
    await import_in_every_way(queue, clock)
    await move_in_every_way(queue, clock)


async def import_in_every_way(queue: Queue, clock: FakeClock) -> None:
    """Of format level 2. In the end some rows wait, one was taken ahead, and a run is staged."""
    later = clock.now() + 3600
    await queue.import_jobs(
        "2026-11-15",
        [
            NewJob("scan", {"page": 1}, queue="import", priority=2, meta={"customer": "Ärzte"}),
            NewJob("scan", {"page": 2}, queue="import", priority=2, run_at=later),
            *(NewJob("print", b"\x00\xff", queue="import", max_attempts=2) for _ in range(3)),
        ],
    )
    await queue.cancel("2026-11-15.1")
    await queue.ack(await claim_one(queue, queues=["import"], types=["scan"]))
    await queue.publish_import("stream-7", [], query="stream", batch=7)
    await queue.import_jobs("keyed", [NewJob("index", key="k"), NewJob("index", key="k")])
    await queue.abort_import("given-up")
    backend = queue._backend
    key = await backend.keep_import("begun", b'{"id":"x"}\n')
    begun = object_record(
        key, b'{"id":"x"}\n', [SegmentRecord("import", "index", (Chunk(11, 1, 0.0),), 0, 0, "acme")]
    )
    await backend.execute(StageImport(SYSTEM_TENANT, "begun", (begun,), "stream", 8))


async def move_in_every_way(queue: Queue, clock: FakeClock) -> None:
    """Of format level 3. Filled once and aborted once, moved and reopened, so that it goes on."""
    await queue.abort_import("begun")
    execute, other = queue._backend.execute, "s3://elsewhere/queue"
    lease = Lease(77_000_003, "5ec2e7")
    await execute(BeginFilling(SYSTEM_TENANT, "a1", other, clock.now()))
    await execute(AbortFilling(SYSTEM_TENANT, "a1", other))
    await execute(BeginFilling(SYSTEM_TENANT, "b2", other, clock.now() - 1))
    adopted = [
        Job(
            "came 1", "acme", "images", "resize", 5, 10.5, 11.5, Raw(b'{"id":8}'), key="img-8",
            state=State.RUNNING, attempt=2, failures=1, progress=0.5, worker="w9", lease=lease,
            lease_until=clock.now() + 30, started_at=12.5,
            errors=(AttemptError(1, 11.0, "error", "boom"),),
        ),
        Job(
            "came 2", "acme", "images", "resize", 6, 10.5, 11.5, state=State.COMPLETED, attempt=1,
            result=Raw(b"true"), ended_lease=lease, started_at=12.5, ended_at=clock.now() - 2,
            archived_at=clock.now() - 1,
        ),
        Job("came 3", "acme", "images", "resize", 7, 10.5, clock.now() + 9, Raw(b"3")),
    ]  # fmt: skip
    await execute(Adopt("acme", "b2", adopted))
    carried = CarriedKey("images", "resize", "img-9", "gone", clock.now() + 60, has_job=False)
    await execute(CarryKeys("acme", "b2", [carried]))
    left = {"gone": Departed(clock.now() + 60, ("a call",))}
    await execute(CarryDepartures("acme", "b2", left))
    paused, runs = {"acme": ["images"]}, {"other": 3}
    opening = EndFilling(
        SYSTEM_TENANT, "b2", 3, "d19e57", 78_000_000, Settings(), paused, runs, ("lost",),
        {"flow": 9},
    )  # fmt: skip
    await execute(opening)
    await claim_one(queue, types=["print"], worker="w3")
    await execute(MoveQueue(SYSTEM_TENANT, "c3", "sqlite:///elsewhere.db"))
    await execute(ReopenQueue(SYSTEM_TENANT, "c3"))


async def objects() -> dict[str, bytes]:
    """Everything that both layouts store, by its name in the folder."""
    found = {}
    for layout in ("log", "single"):
        clock = FakeClock()
        store, services = MemoryStore(now=clock.now), seeded_services(7, clock)
        async with penstock.open(store=store, layout=layout, services=services) as queue:
            await live_through_everything(queue, clock)
        if layout == "log":
            await raise_floor(store, 3, services)
        async for entry in store.list(""):
            found[f"{layout}/{entry.key}"] = (await store.get(entry.key)).data
    log = {name: data for name, data in found.items() if name.startswith("log/log/")}
    found["log/checkpoint/" + max(log).rpartition("/")[2]] = _checkpoint(log)
    return found


def _checkpoint(log: dict[str, bytes]) -> bytes:
    state = QueueState()
    for name, data in sorted(log.items()):
        commit = decode_commit(name, data)
        state.fold(commit.header.at, commit.events)
    header = commit.header
    return checkpoint_of(state, commit=header.commit, chain=commit.chain, at=header.at)


async def write() -> None:
    for name, data in (await objects()).items():
        path = GOLDEN / f"level-{FORMAT_LEVEL}" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


if __name__ == "__main__":
    asyncio.run(write())
