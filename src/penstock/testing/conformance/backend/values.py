"""A bad value harms its own call only: what was stored can be read, by everybody and for good."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from msgspec import Raw

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import InvalidInput
from penstock.kernel.commands import Receipt
from penstock.kernel.retry import RetryPolicy
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import claimed, found, ids
from penstock.wire.values import DIGITS_MAX, NESTING_MAX


class Text(str):
    """As a library may hand out in place of a `str`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "not what it is"


class Whole(int):
    pass


class Number(float):
    pass


class Colour(enum.StrEnum):
    RED = "red"


def nested(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value]
    return value


class Proxy:
    """Says of its own class whatever it likes."""

    @property  # type: ignore[misc]  # as proxies do
    def __class__(self) -> type:
        raise RuntimeError("no class")


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


UNREADABLE: dict[str, Any] = {
    "raw garbage": Raw(b"<html>"),
    "raw garbage within": {"x": [Raw(b"{oops")]},
    "two raw values": Raw(b"1 2"),
    "raw nothing": Raw(b""),
    "raw bytes that are no text": [Raw(b'"\xff"')],
    "half a surrogate pair, raw": [Raw(b'"\\ud800"')],
    "a raw number beyond all": Raw(b"1e999"),
    "half a surrogate pair": {"x": "\ud800"},
    "half a surrogate pair as a key": {"\ud800": 1},
    "nested too deep": nested(NESTING_MAX + 1),
    "a number with too many digits": [{"x": 10**DIGITS_MAX}],
    "nested far too deep": nested(976),
    "nested too deep, raw": Raw(b"[" * 976 + b"]" * 976),
    "not a number": float("nan"),
    "infinity": float("-inf"),
    "not a number, within": {"x": [1, (None, float("nan"))]},
    "a number's subclass that is none": Number("inf"),
    "a list as a key": {(1, 2): 3},
    "an object": object(),
}
PLAIN: dict[str, tuple[Any, Any]] = {
    "text": (Text("a"), "a"),
    "an enumeration": (Colour.RED, "red"),
    "a whole number": ([Whole(3)], [3]),
    "a number": ({"x": Number(1.5)}, {"x": 1.5}),
    "a key": ({Text("k"): 1}, {"k": 1}),
    "raw": ({"x": Raw(b'{"a":\n [1]}')}, {"x": {"a": [1]}}),
    "as deep as may be": (nested(NESTING_MAX), nested(NESTING_MAX)),
    "as long as may be": (10**DIGITS_MAX - 1, 10**DIGITS_MAX - 1),
    "many digits that are text": ("9" * 2 * DIGITS_MAX, "9" * 2 * DIGITS_MAX),
    "a huge number": (10**40, 10**40),
}
BAD_OPTIONS: list[dict[str, Any]] = [
    {"meta": {"x": Proxy()}},
    {"meta": {"x": Raw(b"{oops")}},
    {"meta": {"x": float("nan")}},
    {"meta": {"x": nested(NESTING_MAX)}},
    {"trace": "\ud800"},
    {"trace": 7},
    {"key": "\udfff"},
    {"id": "\ud800"},
    {"queue": 7},
    {"priority": "high"},
    {"priority": True},
    {"priority": 10**30},
    {"max_attempts": 0},
    {"max_attempts": 10**30},
    {"max_attempts": 2.5},
    {"timeout_seconds": float("nan")},
    {"timeout_seconds": 0},
    {"timeout_seconds": "long"},
    {"delay_seconds": -1},
    {"delay_seconds": 1e300},
    {"delay_seconds": 10**400},
    {"run_at": 1e300},
    {"unique_seconds": float("inf"), "key": "k"},
    {"retry": {"initial_seconds": 1}},
    {"codec": ["json"]},
    {"codec": "none such"},
]


class Values:
    async def test_a_value_that_nobody_could_read_is_refused(
        self, handles: Handles, queue: Queue
    ) -> None:
        job = await claimed(queue)
        for what, value in UNREADABLE.items():
            calls = (
                queue.enqueue("work", value),
                queue.ack(job, value),
                queue.enqueue("fine", what),
            )
            refused, unacked, fine = await asyncio.gather(*calls, return_exceptions=True)
            [outcome] = await queue.ack([job], results=[value])
            assert isinstance(refused, InvalidInput), what
            assert isinstance(unacked, InvalidInput), what
            assert isinstance(outcome, InvalidInput), what
            assert isinstance(fine, Receipt), what
        other = await handles.open()
        assert [one.payload for one in await other.claim(99)] == list(UNREADABLE)
        await other.ack(job, "readable")
        assert (await found(other, job.id)).result == "readable"

    async def test_a_value_means_what_it_stands_for(self, handles: Handles, queue: Queue) -> None:
        other = await handles.open()
        for what, (value, plain) in PLAIN.items():
            job = await claimed(queue, payload=value)
            assert (type(job.payload), job.payload) == (type(plain), plain), what
            await queue.ack(job, value)
            assert (await found(other, job.id)).result == plain, what

    async def test_an_option_that_nobody_could_read_is_refused(
        self, handles: Handles, queue: Queue
    ) -> None:
        for options in BAD_OPTIONS:
            with pytest.raises(InvalidInput):
                await queue.enqueue("work", **options)
            with pytest.raises(InvalidInput):
                await queue.enqueue_many([NewJob("work", **options)])
        assert await ids(await handles.open()) == []

    async def test_options_mean_what_they_stand_for(self, handles: Handles, queue: Queue) -> None:
        await queue.enqueue(
            Text("work"), queue=Text("q"), id=Text("one"), key=Text("k"), priority=Whole(3),
            max_attempts=Whole(2), timeout_seconds=Number(7), unique_seconds=Whole(60),
            delay_seconds=Number(0), trace=Text("t"), codec=Text("json"),
            meta={Text("m"): [Text("x"), Whole(1)]},
            retry=RetryPolicy(Number(2), max_seconds=Whole(9)),
        )  # fmt: skip
        other = await handles.open()
        [job] = await other.claim(Whole(1), queues=[Text("q")], worker=Text("w"))
        assert (job.id, job.type, job.queue, job.key) == ("one", "work", "q", "k")
        assert (job.priority, job.max_attempts, job.timeout_seconds) == (3, 2, 7.0)
        assert (job.meta, job.trace, job.worker) == ({"m": ["x", 1]}, "t", "w")
        assert job.retry == RetryPolicy(2.0, max_seconds=9.0)
        await queue.heartbeat(job, progress=Number(0.5), lease_seconds=Whole(30))
        assert (await found(other, Text("one"))).progress == 0.5
        await queue.nack(job, Text("boom"), kind=Text("kind"), delay_seconds=Whole(0))
        assert (await found(other, "one")).errors[-1].kind == "kind"
        assert await queue.cancel([Text("one")]) == ["cancelled"]

    async def test_an_error_without_words_is_recorded(self, handles: Handles, queue: Queue) -> None:
        job = await claimed(queue)
        await queue.nack(job, BrokenError(), retry=False)
        errors = (await found(await handles.open(), job.id)).errors
        assert "BrokenError" in errors[-1].message

    async def test_names_that_nobody_could_read_are_refused(
        self, handles: Handles, queue: Queue
    ) -> None:
        job = await claimed(queue)
        bads: list[Any] = [Raw(b"x"), "\ud800", 7]
        for bad in bads:
            no_number: Any = [bad]
            calls: list[Callable[[], Awaitable[Any]]] = [
                partial(queue.claim, worker=bad),
                partial(queue.claim, queues=[bad]),
                partial(queue.pause, bad),
                partial(queue.cancel, [bad]),
                partial(queue.nack, job, "boom", kind=bad),
                partial(queue.move_consumer, bad, 1),
                partial(queue.elect, bad, "me", 1.0),
                partial(queue.heartbeat, job, progress=no_number),
                partial(queue.configure, result_ttl_seconds=no_number),
            ]
            for call in calls:
                with pytest.raises(InvalidInput):
                    await call()
        await (await handles.open()).ack(job)
