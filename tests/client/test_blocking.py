"""The blocking twin: the same queue for code without an event loop."""

from __future__ import annotations

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
    QueueClosed,
)
from penstock.kernel.job import State


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
    assert [next(events).id for _ in range(5)] == [str(n) for n in range(5)]
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
    assert queue.stats().totals == {"completed": 160}


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
    with pytest.raises((QueueClosed, AttributeError), match="with"):
        queue.enqueue("work")


def test_an_error_at_open_is_raised_and_nothing_is_left_running() -> None:
    before = threading.active_count()
    with pytest.raises(InvalidURL), penstock.open_sync("ftp://nowhere"):
        pass
    assert threading.active_count() == before
