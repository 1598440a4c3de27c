"""Random scripts for the kernel: batches of commands, decided, committed and folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import PenstockError
from penstock.kernel.batch import Batch
from penstock.kernel.commands import (
    AbortImport,
    Ack,
    AdvanceImport,
    AnyCommand,
    Archive,
    Beat,
    Cancel,
    Claim,
    Configure,
    DropConsumer,
    Enqueue,
    Expire,
    Failure,
    Heartbeat,
    MoveConsumer,
    Nack,
    NoteCheckpoint,
    Pause,
    PublishImport,
    Release,
    Replay,
    Resume,
    Return,
    StageImport,
    Success,
    Sweep,
    Unarchive,
)
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import Job, Lease
from penstock.kernel.manifest import ChunkPlace, ImportObject, Row
from penstock.kernel.retry import RetryPolicy
from penstock.kernel.state import QueueState
from penstock.testing.clock import EPOCH
from penstock.testing.factories import a_submission
from penstock.wire.commit import CHAIN_START, Commit, decode_commit, encode_commit
from penstock.wire.imports import Group, decode_chunk, encode_rows, object_record
from penstock.wire.level import digest
from penstock.wire.snapshot import checkpoint_of, decode_checkpoint, restore

Step: TypeAlias = tuple[str, Any]
Script: TypeAlias = list[tuple[float, list[Step]]]

TENANTS = st.sampled_from(["a", "b"])
RUNS = st.sampled_from(["r", "s"])
IDS = st.sampled_from([*(f"job {n}" for n in range(6)), "r.0", "r.1", "r.3", "s.0", "s.2"])
QUEUES = st.sampled_from(["x", "y"])
TYPES = st.sampled_from(["s", "t"])
SECONDS = st.sampled_from([0.0, 0.5, 1.0, 5.0, 31.0, 40.0, 4000.0])
POLICIES = st.sampled_from([RetryPolicy(), RetryPolicy(initial_seconds=0, max_seconds=0)])
SETTINGS = st.sampled_from(
    [
        {"result_ttl_seconds": 0.0},
        {"result_ttl_seconds": 30.0},
        {"dead_letter_ttl_seconds": 20.0},
        {"archive_ttl_seconds": 5.0},
        {"finished_jobs_max": 1},
        {"results_bytes_max": 300},
        {"clock_skew_seconds": 0.0},
    ]
)


@st.composite
def enqueues(draw: st.DrawFn) -> Step:
    fields: dict[str, Any] = {
        "id": draw(IDS),
        "type": draw(TYPES),
        "queue": draw(QUEUES),
        "priority": draw(st.integers(-1, 1)),
        "delay_seconds": draw(SECONDS),
        "max_attempts": draw(st.integers(1, 3)),
        "retry": draw(POLICIES),
    }
    if draw(st.booleans()):
        fields |= {"key": draw(st.sampled_from("kl")), "unique_seconds": draw(SECONDS)}
    return "enqueue", (draw(TENANTS), fields)


ImportedRow: TypeAlias = tuple[Group, float | None, str]
"""Its group, when it is due, counted from the beginning, and what marks it."""


def imported_rows(rows_max: int = 9) -> st.SearchStrategy[list[ImportedRow]]:
    groups = st.tuples(TENANTS, QUEUES, TYPES, st.integers(-1, 1))
    row = st.tuples(groups, st.none() | SECONDS, st.sampled_from("abc"))
    return st.lists(row, max_size=rows_max)


def import_steps() -> st.SearchStrategy[Step]:
    return st.one_of(
        st.tuples(st.just("import"), st.tuples(RUNS, imported_rows())),
        st.tuples(st.just("stage"), st.tuples(RUNS, imported_rows())),
        st.tuples(st.just("advance"), RUNS),
        st.tuples(st.just("abort"), RUNS),
    )


def steps() -> st.SearchStrategy[Step]:
    which = st.integers(0, 7)
    return st.one_of(
        enqueues(),
        enqueues(),
        st.tuples(
            st.just("claim"), st.tuples(TENANTS, st.integers(1, 3), st.none() | st.lists(QUEUES))
        ),
        st.tuples(st.just("claim again"), which),
        st.tuples(st.just("ack"), st.tuples(which, st.sampled_from([0, 10, 200]))),
        st.tuples(st.just("ack"), st.tuples(which, st.sampled_from([0, 10, 200]))),
        st.tuples(st.just("nack"), st.tuples(which, st.booleans())),
        st.tuples(st.just("beat"), st.tuples(which, SECONDS)),
        st.tuples(st.just("release"), st.tuples(which, st.none() | SECONDS)),
        st.tuples(st.just("cancel"), st.tuples(TENANTS, IDS)),
        st.tuples(st.just("replay"), st.tuples(TENANTS, IDS)),
        st.tuples(st.just("archive"), st.tuples(TENANTS, IDS)),
        st.tuples(st.just("unarchive"), st.tuples(TENANTS, IDS)),
        st.tuples(st.just("pause"), st.tuples(TENANTS, QUEUES)),
        st.tuples(st.just("resume"), st.tuples(TENANTS, QUEUES)),
        st.tuples(st.just("expire"), st.none()),
        st.tuples(st.just("configure"), SETTINGS),
        st.tuples(st.just("housekeep"), st.integers(0, 3)),
        import_steps(),
    )


def scripts(commits_max: int = 25) -> st.SearchStrategy[Script]:
    """Batches, each after some time has passed."""
    batch = st.tuples(SECONDS, st.lists(steps(), min_size=1, max_size=5))
    return st.lists(batch, min_size=1, max_size=commits_max)


class Kernel:
    """A queue without an engine: what it decides is encoded, and the log can be folded again."""

    def __init__(self, seed: int = 0) -> None:
        self.state = QueueState()
        self.commits: list[Commit] = []
        self.at = EPOCH
        self.leases: list[tuple[str, str, Lease]] = []
        self.answers: list[Any] = []
        self._luck = Random(seed)

    @property
    def chain(self) -> str:
        return self.commits[-1].chain if self.commits else CHAIN_START

    def run(self, script: Script) -> None:
        for seconds, batch in script:
            self.commit(seconds, batch)

    def commit(self, seconds: float, batch: Sequence[Step]) -> None:
        self.at += seconds
        self.state.begin()
        events = self.decide(batch)
        self.state.settle()
        if not events:
            return
        data, _ = encode_commit(
            events,
            commit=len(self.commits) + 1,
            commit_id=f"{len(self.commits) + 1:032x}",
            writer="w",
            at=self.at,
            previous=self.chain,
        )
        self.state.seal(self.at)
        self.commits.append(decode_commit("log", data))

    def decide(self, batch: Sequence[Step]) -> list[Any]:
        decided = Batch(
            self.state, self.at, len(self.commits) + 1, self._luck.random, chunks_at_hand
        )
        for step in batch:
            command = self.command(step)
            if command is not None:
                self._remember(command, _answer(decided, command))
        return decided.events

    def checkpoint(self) -> bytes:
        return checkpoint_of(
            self.state, commit=len(self.commits), chain=self.chain, at=self._committed_at()
        )

    def _committed_at(self) -> float:
        return self.commits[-1].header.at if self.commits else 0.0

    def _remember(self, command: AnyCommand, answer: Any) -> None:
        self.answers.append(answer)
        if isinstance(command, Claim) and isinstance(answer, list):
            self.leases += [(job.tenant, job.id, job.lease) for job in answer]

    def command(self, step: Step) -> AnyCommand | None:
        name, arguments = step
        if name in ("claim again", "ack", "nack", "beat", "release"):
            return self._on_a_lease(name, arguments)
        return self._on_anything(name, arguments)

    def _on_anything(self, name: str, arguments: Any) -> AnyCommand:
        match name, arguments:
            case "enqueue", (tenant, fields):
                return Enqueue(tenant, [a_submission(**fields)])
            case "claim", (tenant, count, queues):
                operation = f"{len(self.leases):032x}"
                chosen = None if queues is None else tuple(queues)
                return Claim(tenant, operation, count, 30.0, chosen)
            case "configure", changes:
                return Configure(SYSTEM_TENANT, changes)
            case "housekeep", number:
                return self._housekeeping(number)
            case "import", (run, rows):
                return PublishImport(SYSTEM_TENANT, run, import_objects(run, rows))
            case "stage", (run, rows):
                return StageImport(SYSTEM_TENANT, run, import_objects(run, rows, keyed=True))
            case "advance", run:
                staged = self.state.imports.staged.get(run)
                return AdvanceImport(SYSTEM_TENANT, run, 0 if staged is None else staged.reached)
            case "abort", run:
                return AbortImport(SYSTEM_TENANT, run)
            case "expire", _:
                return Expire(SYSTEM_TENANT)
            case "pause" | "resume", (tenant, queue):
                return (Pause if name == "pause" else Resume)(tenant, queue)
            case _, (tenant, id):
                kinds: dict[str, Callable[[str, list[str]], AnyCommand]] = {
                    "cancel": Cancel,
                    "replay": Replay,
                    "archive": Archive,
                    "unarchive": Unarchive,
                }
                return kinds[name](tenant, [id])
            case _:
                raise AssertionError(name)

    def _housekeeping(self, number: int) -> AnyCommand:
        known = len(self.commits)
        return (
            NoteCheckpoint(SYSTEM_TENANT, known, 1000),
            Sweep(SYSTEM_TENANT, self.at - 100),
            MoveConsumer(SYSTEM_TENANT, "reader", known),
            DropConsumer(SYSTEM_TENANT, "reader"),
        )[number]

    def _on_a_lease(self, name: str, arguments: Any) -> AnyCommand | None:
        if not self.leases:
            return None
        which = arguments if name == "claim again" else arguments[0]
        tenant, id, lease = self.leases[-1 - which % len(self.leases)]
        match name, arguments:
            case "claim again", _:
                return Claim(tenant, lease.secret, 1, 30.0)
            case "ack", (_, size):
                return Ack(tenant, [Success(id, lease, Raw(b'"' + b"x" * size + b'"'))])
            case "nack", (_, retry):
                return Nack(tenant, [Failure(id, lease, "boom", retry=retry)])
            case "beat", (_, seconds):
                return Heartbeat(tenant, [Beat(id, lease, seconds, seconds / 10_000)])
            case "release", (_, seconds):
                until = None if seconds is None else self.at + seconds
                return Release(tenant, [Return(id, lease, until)])
            case _:
                raise AssertionError(name)


_OBJECTS: dict[str, bytes] = {}
"""Import objects, by names that say what is in them."""


def import_objects(
    run: str, rows: Sequence[ImportedRow], *, keyed: bool = False
) -> tuple[ImportObject, ...]:
    """Writes rows as two objects, with two rows in a chunk."""
    return tuple(
        _import_object(run, rows[half::2], keyed=keyed) for half in (0, 1) if rows[half::2]
    )


def _import_object(run: str, rows: Sequence[ImportedRow], *, keyed: bool) -> ImportObject:
    groups: dict[Group, list[Row]] = {}
    for group, seconds, mark in rows:
        due = None if seconds is None else EPOCH + seconds
        row = Row(Raw(f'"{mark}"'.encode()), due, key=mark if keyed else None)
        groups.setdefault(group, []).append(row)
    data, segments = encode_rows(sorted(groups.items()), chunk_rows_max=2)
    key = f"import/{run}/{digest(data)}.jsonl"
    _OBJECTS[key] = data
    return object_record(key, data, segments)


def chunks_at_hand(place: ChunkPlace) -> list[Row]:
    return decode_chunk(place, _OBJECTS[place.key])


def _answer(decided: Batch, command: AnyCommand) -> Any:
    try:
        return decided.run(command)
    except PenstockError as error:
        return error


def restored(checkpoint: bytes) -> QueueState:
    head, jobs = decode_checkpoint("checkpoint", checkpoint)
    return restore(head.overview, jobs, head.at)


def folded(commits: Sequence[Commit], state: QueueState | None = None) -> QueueState:
    state = QueueState() if state is None else state
    for commit in commits:
        state.fold(commit.header.at, commit.events)
    return state


def live(state: QueueState) -> list[Job]:
    return [job for tenancy in state.tenants.values() for job in tenancy.jobs.values()]
