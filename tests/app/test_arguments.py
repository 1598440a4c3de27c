"""Arguments: bound when a job is enqueued, checked when it runs, typed on the way back."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

import penstock
from penstock.errors import ArgumentsInvalid, InvalidInput, PayloadInvalid, ResultInvalid
from penstock.kernel.job import State
from penstock.testing.kit import Kit


class Size(msgspec.Struct):
    width: int
    height: int = 1


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Address(TypedDict):
    street: str
    number: int


class Names(NamedTuple):
    few: set[str]
    raw: list[bytes]


class Tree(TypedDict):
    leaf: set[int]
    more: list[Tree]


class Colour(enum.Enum):
    RED = "red"


MOMENT = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
VALUES: list[tuple[Any, Any]] = [
    (int, 7),
    (str, "text"),
    (bool, True),
    (float | None, None),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[str], {"a"}),
    (dict[int, str], {1: "one"}),
    (bytes, b"\x00\xff"),
    (datetime.datetime, MOMENT),
    (datetime.date, MOMENT.date()),
    (datetime.timedelta, datetime.timedelta(minutes=5)),
    (Decimal, Decimal("1.10")),
    (uuid.UUID, uuid.UUID(int=7)),
    (Colour, Colour.RED),
    (Size, Size(640, 480)),
    (Point, Point(1.5, 2.5)),
    (Address, {"street": "Main", "number": 7}),
    (list[Size | None], [Size(1), None]),
    (dict[str, list[bytes] | None], {"a": [b"\x00"], "b": None}),
    (Names, Names({"a"}, [b"\xff"])),
    (Tree, {"leaf": {1}, "more": [{"leaf": {2}, "more": []}]}),
    (Any, {"anything": [1]}),
]


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=[str(each) for each, _ in VALUES])
async def test_a_handler_gets_the_very_value_that_was_enqueued(
    app: penstock.App, kit: Kit, annotation: Any, value: Any, codec: str
) -> None:
    got: list[Any] = []

    async def take(value: Any) -> Any:
        got.append(value)
        return value

    take.__annotations__.update(value=annotation, **{"return": annotation})
    task = app.task(codec=codec)(take)
    receipt = await task.enqueue(value)
    assert (await kit.drain()).completed == 1
    assert got == [value]
    assert type(got[0]) is type(value)
    job = await kit.queue.get(receipt.id)
    assert job is not None
    assert task.signature.result(job.result) == value


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"width": "wide"}, "Expected `int`, got `str` - at `$.width`"),
        ({}, "missing required field `width`"),
        (None, "missing required field `width`"),
        ({"width": 1, "depth": 2}, "unknown field `depth`"),
        ([], "of type list, and a task takes one object, argument name to value"),
        ([], '{"width": …, "height": …}'),
        (0, "of type int"),
        ("", "of type str"),
        (False, "of type bool"),
    ],
)
async def test_a_payload_that_does_not_fit_fails_at_once_and_says_why(
    app: penstock.App, kit: Kit, payload: Any, problem: str
) -> None:
    ran = []

    @app.task
    async def resize(width: int, height: int = 1) -> None:
        ran.append(width)

    receipt = await kit.queue.enqueue("resize", payload)
    assert (await kit.drain()).failed == 1
    job = await kit.queue.get(receipt.id)
    assert job is not None
    assert (job.state, job.attempt) == (State.FAILED, 1)
    assert job.errors[0].kind == "arguments"
    assert problem.lower() in job.errors[0].message.lower()
    assert not ran


async def test_defaults_fill_in_what_is_left_out(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def resize(width: int, *, height: int = 480) -> list[int]:
        return [width, height]

    await resize.enqueue(640)
    await resize.enqueue(width=640, height=1)
    await kit.drain()
    assert [job.result for job in await kit.jobs()] == [[640, 480], [640, 1]]


async def test_a_task_without_arguments_needs_no_payload(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def tick() -> str:
        return "tock"

    await kit.queue.enqueue("tick")
    await tick.enqueue()
    assert (await kit.drain()).completed == 2


async def test_what_can_be_anything_needs_no_annotation(app: penstock.App, kit: Kit) -> None:
    async def echo(value):  # type: ignore[no-untyped-def]
        return value

    task = app.task(echo)
    await task.enqueue({"a": [1]})
    await kit.drain()
    assert [job.result for job in await kit.jobs()] == [{"a": [1]}]


@pytest.mark.parametrize(
    ("arguments", "named", "problem"),
    [
        ((), {}, "resize: missing a required argument: 'width'"),
        ((1, 2, 3), {}, "resize: too many positional arguments"),
        ((1,), {"depth": 3}, "resize: got an unexpected keyword argument 'depth'"),
        ((1,), {"width": 3}, "resize: multiple values for argument 'width'"),
    ],
)
def test_a_call_that_the_function_would_refuse_is_refused_before_it_is_enqueued(
    app: penstock.App, arguments: tuple[Any, ...], named: dict[str, Any], problem: str
) -> None:
    @app.task
    async def resize(width: int, height: int = 1) -> None: ...

    with pytest.raises(TypeError, match=problem):
        resize.job(*arguments, **named)


async def test_the_context_is_given_to_whoever_declares_it_wherever_it_stands(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def first(context: penstock.JobContext, name: str) -> list[Any]:
        return [context.id, context.attempt, context.tenant, name]

    @app.task
    def last(name: str, *, context: penstock.JobContext) -> list[Any]:
        return [context.id, context.fence > 0, context.is_cancelled, name]

    one = await first.enqueue("Ada")
    other = await last.options(id="mine").enqueue("Ada")  # type: ignore[call-arg]
    await kit.drain()
    assert [job.result for job in await kit.jobs()] == [
        [one.id, 1, "default", "Ada"],
        [other.id, True, False, "Ada"],
    ]


async def test_a_caller_cannot_pass_the_context(app: penstock.App) -> None:
    @app.task
    async def work(context: penstock.JobContext, name: str) -> None: ...

    with pytest.raises(TypeError, match="unexpected keyword argument 'context'"):
        work.job("Ada", context=None)  # type: ignore[call-arg]


def test_a_result_that_does_not_fit_its_annotation_says_so(app: penstock.App) -> None:
    @app.task
    async def count() -> int: ...  # type: ignore[empty-body]

    with pytest.raises(ResultInvalid, match="Expected `int`, got `str`") as caught:
        count.signature.result("many")
    assert caught.value.task == "count"


def test_a_result_type_that_cannot_be_checked_leaves_results_as_they_are(
    app: penstock.App,
) -> None:
    @app.task
    async def work() -> str | bytes: ...  # type: ignore[empty-body]

    assert work.signature.result({"a": 1}) == {"a": 1}


async def test_arguments_of_a_task_that_runs_here_are_checked_the_same(app: penstock.App) -> None:
    @app.task
    async def resize(size: Size) -> int:
        return size.width

    assert await app.execute_now(resize, size=Size(7)) == 7
    with pytest.raises(ArgumentsInvalid):
        await app.execute_now(resize, size="wide")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "options",
    [
        {"priority": "high"}, {"priority": True}, {"max_attempts": 0}, {"timeout_seconds": -1},
        {"delay_seconds": -0.5}, {"unique_seconds": float("nan")}, {"wait_seconds": -1},
        {"queue": "a/b"}, {"retry": 3}, {"meta": {"x": float("nan")}}, {"key": 7}, {"codec": 7},
        {"delay_seconds": 1, "run_at": 1.0},
    ],
    ids=str,
)  # fmt: skip
async def test_an_option_that_can_not_be_is_refused_where_it_is_written(
    app: penstock.App, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        app.task(name="other", **options)(_nothing)

    @app.task
    async def work() -> None: ...

    with pytest.raises(InvalidInput):
        work.options(**options)


async def test_options_and_arguments_may_be_numpys(app: penstock.App) -> None:
    numpy = pytest.importorskip("numpy")

    @app.task(priority=numpy.int64(3), timeout_seconds=numpy.float32(7))
    async def work(count: int, share: float, name: str) -> None: ...

    job = work.options(max_attempts=numpy.int32(2)).job(
        numpy.int64(7), numpy.float64(0.5), numpy.str_("x")
    )
    assert (job.priority, job.timeout_seconds, job.max_attempts) == (3, 7.0, 2)
    async with app:
        await work.enqueue(numpy.int64(7), numpy.float64(0.5), numpy.str_("x"))
        [claimed] = await (await app.queue()).claim()
    assert claimed.payload == {"count": 7, "share": 0.5, "name": "x"}


@pytest.mark.parametrize(
    "arguments", [{"to": b"bytes"}, {"to": 7}, {"to": "x", "sizes": ["large"]}], ids=str
)
async def test_arguments_that_do_not_fit_are_refused_when_they_are_enqueued(
    app: penstock.App, arguments: dict[str, Any]
) -> None:
    @app.task
    async def send(to: str, sizes: list[int] | None = None) -> None: ...

    async with app:
        with pytest.raises(ArgumentsInvalid):
            await send.enqueue(**arguments)
        with pytest.raises(ArgumentsInvalid):
            send.options(priority=1).job(**arguments)


@pytest.mark.parametrize(
    "size", [Size(640, b"480"), Size("wide", 480), Decimal("1.5"), "\ud800"],  # type: ignore[arg-type]
    ids=str,
)  # fmt: skip
async def test_what_an_instance_holds_is_looked_at_before_it_is_enqueued(
    app: penstock.App, size: Any
) -> None:
    """As it will be stored: by its class alone it would pass."""

    @app.task
    async def resize(size: Size | float) -> None: ...

    async with app:
        with pytest.raises(ArgumentsInvalid):
            await resize.enqueue(size)


@pytest.mark.parametrize("keyed", [{7: "x"}, {1.5: "x"}, {uuid.UUID(int=7): "x"}], ids=str)
async def test_a_key_that_is_no_text_is_refused(app: penstock.App, keyed: Any) -> None:
    numpy = pytest.importorskip("numpy")
    async with app:
        queue = await app.queue()
        for payload in (keyed, {numpy.int64(7): "x"}):
            with pytest.raises(PayloadInvalid, match="text"):
                await queue.enqueue("work", payload)


async def test_what_no_annotation_brings_back_is_refused(app: penstock.App) -> None:
    @app.task
    async def draw(data: bytes, more: Any = None) -> None: ...

    async with app:
        await draw.enqueue(b"\x00")
        await draw.options(codec="msgpack").enqueue(b"\x00", {"x": b"\x01"})
        with pytest.raises(PayloadInvalid, match="bytes"):
            await draw.enqueue(b"\x00", {"x": b"\x01"})


def _nothing() -> None: ...
