"""Imported jobs are jobs like all others, only that most of them are not in memory yet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import JobNotFound, RunAborted, RunPublished, RunStaged, RunUnknown, WrongState
from penstock.kernel import invariants
from penstock.kernel.batch import ADMITTED_PER_COMMIT_MAX, Batch
from penstock.kernel.commands import (
    AbortImport,
    AdvanceImport,
    AnyCommand,
    Archive,
    Cancel,
    Claim,
    Enqueue,
    ImportProgress,
    ImportReceipt,
    PublishImport,
    Receipt,
    Replay,
    StageImport,
    Submission,
    Sweep,
)
from penstock.kernel.events import SYSTEM_TENANT, Admitted, Event, Imported
from penstock.kernel.invariants import Committed
from penstock.kernel.job import Job, State
from penstock.kernel.manifest import Chunk, ChunkPlace, ImportObject, NeedsChunk, Row, SegmentRecord
from penstock.kernel.state import QueueState
from penstock.testing.clock import EPOCH
from penstock.testing.factories import a_submission
from tests.kernel.scripts import (
    ImportedRow,
    Kernel,
    Script,
    Step,
    chunks_at_hand,
    import_objects,
    imported_rows,
    steps,
)

GENTLE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GROUP = ("a", "x", "s", 0)


def rows(count: int, group: tuple[str, str, str, int] = GROUP) -> list[ImportedRow]:
    return [(group, None, "a")] * count


def decide(kernel: Kernel, command: AnyCommand) -> Any:
    """The answer to one command, committed."""
    kernel.command = lambda step: command  # type: ignore[method-assign]
    kernel.commit(0, [("one", None)])
    return kernel.answers[-1]


def publish(
    kernel: Kernel, run: str, what: list[ImportedRow], query: str | None = None, batch: int = 0
) -> Any:
    objects = import_objects(run, what)
    number = None if query is None else batch
    return decide(kernel, PublishImport(SYSTEM_TENANT, run, objects, query, number))


def log(kernel: Kernel) -> list[Committed]:
    return [
        Committed(header.commit, header.commit_id, header.at, commit.events, header.previous)
        for commit in kernel.commits
        for header in [commit.header]
    ]


class Even:
    """Luck that treats all retries alike: leases that run out together are counted in the order in
    which their jobs began, which is another for imported ones."""

    def random(self) -> float:
        return 0.5


@GENTLE
@given(
    what=imported_rows(24),
    script=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 5.0, 40.0]),
            st.lists(
                steps().filter(
                    lambda step: (
                        step[0]
                        not in ("import", "stage", "advance", "abort", "configure", "housekeep")
                    )
                ),
                min_size=1,
                max_size=5,
            ),
        ),
        max_size=20,
    ),
)
def test_importing_jobs_is_enqueuing_them_one_by_one(
    what: list[ImportedRow], script: Script
) -> None:
    imported, enqueued = Kernel(), Kernel()
    publish(imported, "r", what)
    one_by_one(enqueued, "r", what)
    for kernel in (imported, enqueued):
        vars(kernel).pop("command")
        kernel._luck = Even()  # type: ignore[assignment]  # all that is asked of it
        kernel.answers.clear()
        kernel.run(script)
        for _ in range(40):
            for tenant in "ab":
                for queue in "xy":
                    kernel.commit(0, [("resume", (tenant, queue))])
                kernel.commit(100, [("claim", (tenant, 3, None))])
    assert [seen(answer) for answer in imported.answers] == [
        seen(answer) for answer in enqueued.answers
    ]
    assert not invariants.claims_follow_the_order(log(imported))
    assert not invariants.imports_happen_once(log(imported))
    assert not invariants.counts_are_conserved(log(imported), imported.state)


def one_by_one(kernel: Kernel, run: str, what: list[ImportedRow]) -> None:
    """Enqueues the rows in the order that a run has them in."""
    numbers = {"a": 0, "b": 0}
    commands: list[AnyCommand] = []
    for part in import_objects(run, what):
        for segment in part.segments:
            offset = segment.offset
            for chunk in segment.chunks:
                place = ChunkPlace(part.key, part.digest, offset, chunk.size_bytes, 0, chunk.rows)
                offset += chunk.size_bytes
                commands += [
                    Enqueue(segment.tenant, [_new(run, numbers, segment, row)])
                    for row in chunks_at_hand(place)
                ]
    kernel.command = lambda step: commands[step[1]]  # type: ignore[method-assign]
    kernel.commit(0, [("one", index) for index in range(len(commands))])


def _new(run: str, numbers: dict[str, int], segment: SegmentRecord, row: Row) -> Submission:
    number = numbers[segment.tenant]
    numbers[segment.tenant] += 1
    return Submission(
        f"{run}.{number}", segment.type, row.payload, queue=segment.queue,
        priority=segment.priority, run_at=row.run_at,
    )  # fmt: skip


def seen(answer: Any) -> Any:
    """An answer without what depends on positions."""
    if isinstance(answer, list):
        return [seen(item) for item in answer]
    if isinstance(answer, Job):
        return (answer.id, answer.type, bytes(answer.payload), answer.attempt, answer.run_at)
    if isinstance(answer, Receipt):
        return (answer.id, answer.status, answer.state)
    return repr(answer)


def test_a_claim_says_which_chunk_it_needs_and_changes_nothing() -> None:
    kernel = Kernel()
    publish(kernel, "r", rows(3))
    before = kernel.checkpoint()
    kernel.state.begin()
    batch = Batch(kernel.state, kernel.at, 2, lambda: 0.5)
    with pytest.raises(NeedsChunk) as needs:
        batch.run(Claim("a", "0" * 32, 1, 30.0))
    kernel.state.rollback()
    assert needs.value.place.rows == 2
    assert kernel.checkpoint() == before


def test_a_claim_admits_one_chunk_and_leaves_the_rest() -> None:
    kernel = Kernel()
    publish(kernel, "r", rows(7))
    [job] = decide(kernel, Claim("a", "0" * 32, 1, 30.0))
    assert (job.id, job.enqueued_at) == ("r.0", EPOCH)
    assert [event.event for event in kernel.commits[-1].events] == [
        "admitted", "admitted", "claimed",
    ]  # fmt: skip
    assert sum(segment.unadmitted for segment in kernel.state.imports.segments()) == 5


def test_a_cancelled_row_is_admitted_ahead_and_skipped_later() -> None:
    kernel = Kernel()
    publish(kernel, "r", rows(6))
    assert decide(kernel, Cancel("a", ["r.3", "r.9", "r.3"])) == [
        "cancelled", "not_found", "cancelled",
    ]  # fmt: skip
    assert [event.event for event in kernel.commits[-1].events] == ["admitted", "cancelled"]
    claimed = decide(kernel, Claim("a", "0" * 32, 9, 30.0))
    assert [job.id for job in claimed] == ["r.0", "r.1", "r.2", "r.4", "r.5"]


def test_an_unadmitted_job_is_known_to_those_who_ask() -> None:
    kernel = Kernel()
    publish(kernel, "r", rows(2))
    assert decide(kernel, Enqueue("a", [a_submission("r.1")])) == [
        Receipt("r.1", "duplicate", State.PENDING)
    ]
    assert decide(kernel, Replay("a", ["r.1"])) == [State.PENDING]
    [error] = decide(kernel, Archive("a", ["r.1"]))
    assert isinstance(error, WrongState)
    [error] = decide(kernel, Archive("b", ["r.1"]))
    assert isinstance(error, JobNotFound), "another tenant's id looks unknown"
    assert decide(kernel, Cancel("a", ["r.01", "r.-1", "r.", ".1", "r.٣"])) == ["not_found"] * 5
    assert len(kernel.commits) == 1


def test_a_row_whose_id_was_taken_before_gets_another() -> None:
    kernel = Kernel()
    decide(kernel, Enqueue("a", [a_submission("r.1", queue="y")]))
    publish(kernel, "r", rows(3))
    claimed = decide(kernel, Claim("a", "0" * 32, 9, 30.0, ("x",)))
    assert [job.id for job in claimed] == ["r.0", "r.1+", "r.2"]
    assert kernel.state.tenants["a"].jobs["r.1"].queue == "y"


def test_a_run_is_published_once() -> None:
    kernel = Kernel()
    assert publish(kernel, "r", rows(3)) == ImportReceipt("r", 3, "published")
    assert publish(kernel, "r", rows(5)) == ImportReceipt("r", 3, "already published")
    decide(kernel, Claim("a", "0" * 32, 9, 30.0))
    assert publish(kernel, "r", rows(5)) == ImportReceipt("r", 3, "already published")
    assert publish(kernel, "empty", []) == ImportReceipt("empty", 0, "published")
    assert publish(kernel, "empty", rows(1)).status == "already published"


def test_a_batch_of_a_query_is_published_once_whatever_its_run_is_called() -> None:
    kernel = Kernel()
    assert publish(kernel, "q-0", rows(1), "q", 0).status == "published"
    assert publish(kernel, "q-5", rows(1), "q", 5).status == "published"
    assert publish(kernel, "q-5-again", rows(1), "q", 5).status == "already published"
    assert publish(kernel, "q-3", rows(1), "q", 3).status == "already published"
    assert publish(kernel, "p-3", rows(1), "p", 3).status == "published"
    assert not invariants.imports_happen_once(log(kernel))


def test_of_a_query_only_the_highest_batch_is_kept_for_ever() -> None:
    kernel = Kernel()
    for batch in range(5):
        publish(kernel, f"q-{batch}", rows(1), "q", batch)
    publish(kernel, "r", rows(1))
    decide(kernel, Claim("a", "0" * 32, 9, 30.0))
    kernel.at += 1_000
    decide(kernel, Sweep(SYSTEM_TENANT, kernel.at - 10))
    assert list(kernel.state.imports.runs) == ["r"]
    assert publish(kernel, "q-4", rows(1), "q", 4).status == "already published"


def test_an_aborted_run_can_not_be_published_nor_a_published_one_aborted() -> None:
    kernel = Kernel()
    assert decide(kernel, AbortImport(SYSTEM_TENANT, "r")) == 0
    assert decide(kernel, AbortImport(SYSTEM_TENANT, "r")) == 0
    assert len(kernel.commits) == 1
    assert isinstance(publish(kernel, "r", rows(1)), RunAborted)
    publish(kernel, "s", rows(1))
    assert isinstance(decide(kernel, AbortImport(SYSTEM_TENANT, "s")), RunPublished)


def test_nobody_sees_what_a_run_brings_to_others() -> None:
    kernel = Kernel()
    both = [*rows(2), *rows(3, ("b", "x", "s", 0))]
    assert publish(kernel, "r", both).jobs == 5
    imported = [event for event in kernel.commits[0].events if isinstance(event, Imported)]
    assert [(event.tenant, event.rows) for event in imported] == [("a", 2), ("b", 3)]
    assert all(not s.tenant for event in imported for part in event.objects for s in part.segments)
    assert [job.tenant for job in decide(kernel, Claim("b", "1" * 32, 9, 30.0))] == ["b"] * 3


def test_the_rows_of_a_staged_run_are_enqueued_once_however_often_they_are_asked_for() -> None:
    kernel = Kernel()
    objects = import_objects("r", [(GROUP, None, mark) for mark in "abcabc"], keyed=True)
    stage = StageImport(SYSTEM_TENANT, "r", objects)
    assert decide(kernel, stage) == ImportProgress("r", 0, 6)
    assert isinstance(publish(kernel, "r", rows(1)), RunStaged)
    other = StageImport(SYSTEM_TENANT, "r", import_objects("r", rows(2)))
    assert decide(kernel, other) == ImportProgress("r", 0, 6), "what was recorded first counts"
    advance = AdvanceImport(SYSTEM_TENANT, "r", 0)
    assert decide(kernel, advance) == ImportProgress("r", 6, 6)
    assert decide(kernel, advance) == ImportProgress("r", 6, 6)
    assert len(decide(kernel, Claim("a", "0" * 32, 9, 30.0))) == 3, "the keys are unique"
    assert decide(kernel, stage) == ImportProgress("r", 6, 6, is_new=False)
    assert isinstance(decide(kernel, AbortImport(SYSTEM_TENANT, "r")), RunPublished)
    assert not invariants.imports_happen_once(log(kernel))


def test_a_batch_that_another_run_has_staged_goes_on_there() -> None:
    kernel = Kernel()
    objects = import_objects("r", rows(2), keyed=True)
    decide(kernel, StageImport(SYSTEM_TENANT, "r", objects, "q", 3))
    again = StageImport(SYSTEM_TENANT, "s", import_objects("s", rows(9)), "q", 3)
    assert decide(kernel, again) == ImportProgress("r", 0, 2)


def test_a_staged_run_can_be_given_up() -> None:
    kernel = Kernel()
    assert isinstance(decide(kernel, AdvanceImport(SYSTEM_TENANT, "r", 0)), RunUnknown)
    decide(kernel, StageImport(SYSTEM_TENANT, "r", import_objects("r", rows(2), keyed=True)))
    assert decide(kernel, AbortImport(SYSTEM_TENANT, "r")) == 0
    assert isinstance(decide(kernel, AdvanceImport(SYSTEM_TENANT, "r", 0)), RunAborted)
    assert not kernel.state.imports.needed_objects()


def test_an_object_is_needed_until_its_last_row_is_admitted() -> None:
    kernel = Kernel()
    objects = {part.key for part in import_objects("r", rows(3))}
    publish(kernel, "r", rows(3))
    assert kernel.state.imports.needed_objects() == objects
    decide(kernel, Claim("a", "0" * 32, 9, 30.0))
    assert kernel.state.imports.needed_objects() == set()
    assert set(kernel.state.released) == objects
    assert kernel.state.imports.runs["r"].finished_at == kernel.at


def test_a_claim_that_can_read_nothing_says_why_and_one_that_has_something_gives_it() -> None:
    kernel = Kernel()
    publish(kernel, "r", rows(2))
    decide(kernel, Enqueue("a", [a_submission("first", queue="x", priority=-1)]))

    def unreadable(place: Any) -> Any:
        raise JobNotFound("gone")

    kernel.state.begin()
    batch = Batch(kernel.state, kernel.at, 3, lambda: 0.5, unreadable)
    assert [job.id for job in batch.run(Claim("a", "0" * 32, 5, 30.0))] == ["first"]
    with pytest.raises(JobNotFound):
        batch.run(Claim("a", "1" * 32, 5, 30.0))
    with pytest.raises(JobNotFound):
        batch.run(Cancel("a", ["first", "r.1"]))
    kernel.state.settle()
    assert kernel.state.tenants["a"].jobs["first"].state is State.RUNNING


def test_one_commit_admits_only_so_many() -> None:
    state, at = QueueState(), EPOCH
    count = ADMITTED_PER_COMMIT_MAX // 1_000 + 3
    chunk = Chunk(1_000, 1_000, 0.0)
    segments = tuple(
        SegmentRecord("x", f"type {number}", (chunk,), 0, number * 1_000, "a")
        for number in range(count)
    )
    batch = Batch(state, at, 1, lambda: 0.5, lambda place: [Row(Raw(b"1"))] * place.rows)
    batch.run(PublishImport(SYSTEM_TENANT, "r", (ImportObject("import/r/o", "", segments),)))
    for number in range(count):
        batch.run(Claim("a", f"{number:032x}", 1, 30.0, None, (f"type {number}",)))
    admitted: list[Event] = [event for event in batch.events if isinstance(event, Admitted)]
    assert len(admitted) == ADMITTED_PER_COMMIT_MAX


@GENTLE
@given(script=st.lists(st.tuples(st.just(1.0), st.lists(steps(), max_size=5)), max_size=25))
def test_what_the_log_says_of_imports_holds(script: Script) -> None:
    kernel = Kernel()
    step: Step = ("import", ("r", [*rows(3), *rows(2, ("b", "y", "t", 1))]))
    kernel.commit(0, [step])
    kernel.run(script)
    assert not invariants.imports_happen_once(log(kernel))
    assert not invariants.counts_are_conserved(log(kernel), kernel.state)
    assert not invariants.claims_follow_the_order(log(kernel))
