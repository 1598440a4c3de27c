"""The blocking twin: the same queue for code without an event loop."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock
from penstock import BlockingQueue, NewJob
from penstock.errors import (
    InvalidInput,
    InvalidURL,
    JobCancelled,
    JobFailed,
    LeaseLost,
    NotOpen,
    QueueClosed,
)
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import nonzero
from tests.client.blocking_stub import STUB, stub
from tests.runtime.interrupting import interrupt_waiting


@pytest.fixture
def queue() -> Iterator[BlockingQueue]:
    with penstock.open_sync("memory://") as queue:
        yield queue


def test_a_job_goes_all_the_way(queue: BlockingQueue) -> None:
    receipt = queue.enqueue("resize", {"id": 7}, queue="images", priority=5)
    [job] = queue.claim(16, queues=["images"], worker="w1", wait_seconds=5)
    assert (job.id, job.payload) == (receipt.id, {"id": 7})
    queue.heartbeat(job, progress=0.5)
    queue.ack(job, result={"ok": True})
    done = queue.get(receipt.id)
    assert done is not None
    assert (done.state, done.result) == (State.COMPLETED, {"ok": True})
    assert [event.event for event in queue.history(receipt.id)][-1] == "completed"


def test_lists_and_streams_are_iterators(queue: BlockingQueue) -> None:
    queue.enqueue_many([NewJob("work", id=str(n)) for n in range(5)])
    assert [job.id for job in queue.jobs()] == [str(n) for n in range(5)]
    events = queue.events(since="beginning")
    assert [getattr(next(events), "id", None) for _ in range(5)] == [str(n) for n in range(5)]
    events.close()


def test_what_is_not_a_call_is_there_too(queue: BlockingQueue) -> None:
    assert queue.tenant == "default"
    assert queue.capabilities.order == "strict"
    assert queue.settings.result_ttl_seconds == 3600


def test_errors_are_raised_where_the_call_was_made(queue: BlockingQueue) -> None:
    with pytest.raises(InvalidInput):
        queue.claim(0)
    queue.enqueue("work")
    [job] = queue.claim()
    queue.release(job)
    with pytest.raises(LeaseLost):
        queue.ack(job)


def test_it_can_be_used_from_many_threads(queue: BlockingQueue) -> None:
    def work(number: int) -> list[str]:
        for n in range(20):
            queue.enqueue("work", id=f"{number}-{n}")
        done = []
        while jobs := queue.claim(5):
            done += [job.id for job in jobs]
            queue.ack(jobs)
        return done

    with ThreadPoolExecutor(8) as pool:
        done = [id for ids in pool.map(work, range(8)) for id in ids]
    assert sorted(done) == sorted(f"{number}-{n}" for number in range(8) for n in range(20))
    assert nonzero(queue.stats().totals) == {"completed": 160}


def test_a_call_is_answered_by_another_thread(queue: BlockingQueue) -> None:
    def serve() -> None:
        [job] = queue.claim(wait_seconds=20)
        queue.ack(job, job.payload * 2)
        [job] = queue.claim(wait_seconds=20)
        queue.nack(job, "no", retry=False)

    server = threading.Thread(target=serve)
    server.start()
    assert queue.call("double", 21, timeout_seconds=20) == 42
    with pytest.raises(JobFailed):
        queue.call("double", 21, timeout_seconds=20)
    server.join()


def test_a_lease_is_kept_alive_while_a_block_runs(queue: BlockingQueue) -> None:
    queue.enqueue("work", id="job")
    [job] = queue.claim(lease_seconds=0.3)
    events = queue.events(since="now")
    with queue.keep_alive(job, lease_seconds=0.3):
        assert next(events).event == "extended"
    events.close()
    queue.ack(job)
    done = queue.get("job")
    assert done is not None
    assert done.state is State.COMPLETED


def test_a_lease_that_was_lost_shows_when_the_block_ends(queue: BlockingQueue) -> None:
    queue.enqueue("work", id="job")
    [job] = queue.claim(lease_seconds=0.1)
    finished = []

    def work() -> None:
        with queue.keep_alive(job, lease_seconds=0.1):
            queue.cancel("job")
            # Long enough for a heartbeat to find out; a thread can't be interrupted.
            queue.claim(wait_seconds=0.2)
            finished.append("the block")

    with pytest.raises(JobCancelled):
        work()
    assert finished == ["the block"]


def test_several_handles_share_a_folder(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/queue?fsync=off"
    with penstock.open_sync(url) as first, penstock.open_sync(url, tenant="other") as second:
        first.enqueue("work", id="a")
        assert first.stats().jobs == 1
        assert second.stats().jobs == 0
    with penstock.open_sync(url) as again:
        assert [job.id for job in again.jobs()] == ["a"]


def test_a_closed_one_says_so() -> None:
    with penstock.open_sync("memory://") as queue:
        queue.enqueue("work")
    with pytest.raises(QueueClosed, match="was closed"):
        queue.enqueue("work")
    with pytest.raises(QueueClosed, match="open it again"):
        queue.start()


def test_one_that_was_not_opened_yet_says_so() -> None:
    queue = penstock.open_sync("memory://")
    with pytest.raises(NotOpen, match="`with "):
        queue.enqueue("work")
    assert not hasattr(queue, "enqeue")


def test_an_error_at_open_is_raised_and_nothing_is_left_running() -> None:
    before = set(threading.enumerate())
    with pytest.raises(InvalidURL), penstock.open_sync("ftp://nowhere"):
        pass
    # Those of other tests may have ended meanwhile.
    assert set(threading.enumerate()) <= before


def test_a_type_checker_sees_the_queue_as_it_is_now() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run python -m tests.client.blocking_stub"


def test_the_names_of_a_queue_are_listed() -> None:
    with penstock.open_sync("memory://") as queue:
        assert {"enqueue", "claim", "jobs", "capabilities", "tenant"} <= set(dir(queue))
        assert all(hasattr(queue, name) for name in dir(queue))


@pytest.mark.parametrize("after_the_answer", [False, True])
def test_an_interrupted_claim_holds_no_lease_when_its_queue_is_closed(
    after_the_answer: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C reaches the thread that waits; where the answer had come, nobody gets it."""
    url = f"sqlite:///{tmp_path}/queue.db"
    with penstock.open_sync(url) as other:
        id = other.enqueue("work").id
        with penstock.open_sync(url) as queue, monkeypatch.context() as patch:
            interrupt_waiting(patch, after_the_answer=after_the_answer)
            with pytest.raises(KeyboardInterrupt):
                queue.claim(lease_seconds=3600)
        job = other.get(id)
        assert job is not None
        assert (job.state, job.failures) == (State.PENDING, 0)
        [again] = other.claim()
        other.ack(again)


INTERRUPTED = """
import sys
import penstock

with penstock.open_sync(sys.argv[1]) as queue:
    for _ in range(int(sys.argv[2])):
        try:
            print("waiting", flush=True)
            for job in queue.claim(wait_seconds=10, lease_seconds=3600):
                queue.release(job)
        except KeyboardInterrupt:
            pass
    queue.stats()
    print("alive", flush=True)
"""


def test_a_real_interrupt_of_a_waiting_claim_leaves_no_lease(tmp_path: Path) -> None:
    """While nothing is there, and while a job comes in at that very moment."""
    url, rounds = f"file://{tmp_path}/queue", 6
    command = [sys.executable, "-c", INTERRUPTED, url, str(rounds)]
    with (
        penstock.open_sync(url) as queue,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as claimer,
    ):
        assert claimer.stdout is not None
        for number in range(rounds):
            assert claimer.stdout.readline() == "waiting\n"
            if number == rounds // 2:
                queue.enqueue("work", id="job")
            claimer.send_signal(signal.SIGINT)
        assert claimer.communicate(timeout=60)[0] == "alive\n"
        assert claimer.returncode == 0
        job = queue.get("job")
        assert job is not None
        assert (job.state, job.failures, job.lease) == (State.PENDING, 0, None)


def test_memory_with_a_name_is_safe_across_threads() -> None:
    def toil(number: int) -> int:
        done = 0
        with penstock.open_sync("memory://threads") as queue:
            for step in range(50):
                queue.enqueue("work", {"n": step}, delay_seconds=0.0)
                for job in queue.claim(3, wait_seconds=0.01):
                    queue.ack(job, number)
                    done += 1
                queue.stats()
                list(queue.jobs(state="pending"))
            while jobs := queue.claim(10):
                queue.ack(jobs)
                done += len(jobs)
        return done

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(toil, range(4))) == 200


def test_threads_that_start_a_queue_at_once_start_it_once(tmp_path: Path) -> None:
    queue = penstock.open_sync(f"file://{tmp_path}/queue?fsync=off")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: queue.start(), range(4)))
        assert {threads.submit(queue.enqueue, "work").result().status for _ in range(8)} == {
            "queued"
        }
    assert len([t for t in threading.enumerate() if t.name == "penstock-blocking"]) == 1
    queue.close()
