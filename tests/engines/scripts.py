"""Random scripts of what people do with a queue, and what they see while doing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st

from penstock import Job, NewJob, Queue, RetryPolicy
from penstock.errors import PenstockError
from penstock.kernel.events import Paused
from penstock.testing.clock import FakeClock

Step: TypeAlias = tuple[str, dict[str, Any]]

IDS = st.sampled_from([f"job {n}" for n in range(5)])
SECONDS = st.sampled_from([0.0, 1.0, 5.0, 32.0, 100.0, 4000.0])
POLICIES = st.sampled_from([RetryPolicy(), RetryPolicy(initial_seconds=0, max_seconds=0)])
WHICH = st.integers(0, 5)
SETTINGS = st.sampled_from(
    [
        {"result_ttl_seconds": 0.0},
        {"result_ttl_seconds": 60.0},
        {"dead_letter_ttl_seconds": 90.0},
        {"archive_ttl_seconds": 5.0},
        {"finished_jobs_max": 1},
        {"results_bytes_max": 200},
    ]
)
JOB: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["s", "t"]),
    "payload": st.sampled_from([None, {"n": 1}, b"\x00", "ä" * 80]),
    "id": IDS,
    "queue": st.sampled_from(["x", "y"]),
    "priority": st.integers(-1, 1),
    "delay_seconds": SECONDS,
    "max_attempts": st.integers(1, 3),
    "retry": POLICIES,
    "key": st.sampled_from([None, "k", "l"]),
    "unique_seconds": SECONDS,
}


def _step(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    handle = st.integers(0, 2)
    return st.tuples(st.just(name), st.fixed_dictionaries({"handle": handle, **arguments}))


STEPS = st.one_of(
    _step("enqueue", **JOB),
    _step("enqueue", **JOB),
    _step("enqueue_many", jobs=st.lists(st.fixed_dictionaries(JOB), min_size=1, max_size=3)),
    _step("claim", n=st.integers(1, 3), queues=st.sampled_from([None, ["x"], ["y", "x"]])),
    _step("claim", n=st.integers(1, 3), queues=st.sampled_from([None, ["x"], ["y", "x"]])),
    _step("ack", which=WHICH, result=st.sampled_from([None, 1, "r" * 150])),
    _step("ack", which=WHICH, result=st.sampled_from([None, 1, "r" * 150])),
    _step("nack", which=WHICH, retry=st.booleans()),
    _step("heartbeat", which=WHICH, lease_seconds=SECONDS, progress=st.sampled_from([None, 0.5])),
    _step("release", which=WHICH),
    _step("snooze", which=WHICH, seconds=SECONDS),
    _step("cancel", id=IDS),
    _step("replay", id=IDS),
    _step("archive", id=IDS),
    _step("unarchive", id=IDS),
    _step("get", id=IDS),
    _step("history", id=IDS),
    _step("pause", queue=st.sampled_from(["x", "y"])),
    _step("resume", queue=st.sampled_from(["x", "y"])),
    _step("expire"),
    _step("stats"),
    _step("configure", changes=SETTINGS),
    _step("advance", seconds=SECONDS),
    _step("advance", seconds=SECONDS),
)


class Actor:
    """Does what a script says, through one or several handles, and writes down what it is told."""

    def __init__(self, handles: Sequence[Queue], clock: FakeClock) -> None:
        self.seen: list[Any] = []
        self._handles = handles
        self._clock = clock
        self._jobs: list[Job] = []

    async def run(self, script: Sequence[Step]) -> None:
        for name, arguments in script:
            given = dict(arguments)
            queue = self._handles[given.pop("handle") % len(self._handles)]
            try:
                answer = await self._do(queue, name, given)
            except PenstockError as error:
                answer = error
            self.seen.append((name, visible(answer)))

    async def look(self) -> None:
        """Everything that there is to see in the end."""
        queue = self._handles[0]
        for archived in (False, True):
            self.seen.append([visible(job) async for job in queue.jobs(archived=archived)])
        self.seen.append(visible(await queue.stats()))
        await queue.pause("the end")
        async for event in queue.events("beginning"):
            if isinstance(event, Paused) and event.queue == "the end":
                break
            self.seen.append(visible(event))

    async def _do(self, queue: Queue, name: str, given: dict[str, Any]) -> Any:
        match name:
            case "advance":
                return await self._clock.advance(given["seconds"])
            case "enqueue_many":
                return await queue.enqueue_many([NewJob(**job) for job in given["jobs"]])
            case "claim":
                jobs = await queue.claim(**given)
                self._jobs += jobs
                return jobs
            case "ack" | "nack" | "heartbeat" | "release" | "snooze":
                return await self._on_a_lease(queue, name, given)
            case "configure":
                return await queue.configure(**given["changes"])
            case "cancel" | "replay" | "archive" | "unarchive" | "get" | "history":
                return await getattr(queue, name)(given["id"])
            case _:
                return await getattr(queue, name)(**given)

    async def _on_a_lease(self, queue: Queue, name: str, given: dict[str, Any]) -> Any:
        if not self._jobs:
            return None
        job = self._jobs[-1 - given.pop("which") % len(self._jobs)]
        if name == "nack":
            given["error"] = "boom"
        if name == "snooze":
            return await queue.snooze(job, self._clock.now() + given["seconds"])
        return await getattr(queue, name)(job, **given)


# Where something stands in the log, and who committed it, is each backend's own business.
PRIVATE = {
    "position", "life", "since", "operation", "operations", "trail", "lease", "ended_lease",
    "commit", "backend", "state_bytes",
}  # fmt: skip


def visible(answer: Any) -> Any:
    """What a caller can see of an answer, as plain values."""
    if isinstance(answer, PenstockError):
        return type(answer).__name__, str(answer)
    if isinstance(answer, list):
        return [visible(one) for one in answer]
    if isinstance(answer, msgspec.Struct):
        fields = {
            name: _plain(getattr(answer, name))
            for name in answer.__struct_fields__
            if name not in PRIVATE
        }
        return type(answer).__name__, fields
    return answer


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        # Layout `single` is indented for people to read, the values in it as well.
        return msgspec.json.decode(value) if value else None
    if isinstance(value, list | tuple):
        return [visible(one) for one in value]
    return visible(value)
