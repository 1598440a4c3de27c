"""Every parameter of every public call, given what nobody expects there.

Arrays have no truth and compare item by item, some objects refuse to be compared, shown or asked
for their class. Whatever comes, it is refused by one typed error, or taken for what it stands for;
nothing that a value raises by itself gets out, and the queue goes on.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Final
from unittest.mock import Mock

import numpy
import pandas
import pytest

import penstock
from penstock import ImportWriter, JobContext, NewJob, Queue, Receipt, RetryPolicy, WorkerOptions
from penstock.address import Options
from penstock.app.task import TaskOptions
from penstock.errors import CallTimeout, InvalidInput, JobNotFound, LeaseLost, Unsupported
from penstock.kernel.job import Job
from penstock.kernel.settings import Settings
from penstock.maintenance.monitor import MonitorOptions
from penstock.testing.conformance.backend.steps import claimed


class Hostile:
    """Answers nothing: comparing, showing, counting or converting it raises."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("not with me")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = _refuse
    __repr__ = __str__ = __format__ = __int__ = __float__ = __index__ = _refuse

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("not with me")


class Faceless(Hostile):
    """Not even its class can be asked for."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("not with me")


class BrokenFloat(float):
    def __float__(self) -> float:
        raise RuntimeError("not with me")


class BrokenText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not with me")

    __hash__ = str.__hash__


ODD: Final[dict[str, Any]] = {
    "an array": numpy.array([1.0, 2.0]),
    "an empty array": numpy.array([]),
    "an array of one": numpy.array([3]),
    "an array of text": numpy.array(["a", "b"]),
    "a frame": pandas.DataFrame({"a": [1, 2]}),
    "a series": pandas.Series([1, 2]),
    "pandas.NA": pandas.NA,
    "pandas.NaT": pandas.NaT,
    "a decimal": Decimal("1.5"),
    "a decimal that is no number": Decimal("sNaN"),
    "a fraction": Fraction(1, 300),
    "a complex number": 1j,
    "bytes": b"a",
    "a hostile object": Hostile(),
    "an object without a class": Faceless(),
    "what says that it is text": Mock(spec=str),
    "what says that it is a number": Mock(spec=float),
    "what says that it is a job": Mock(spec=Job),
    "a broken number": BrokenFloat(0.01),
    "a broken text": BrokenText("a"),
    "an object": object(),
    "a set": {1},
    "an iterator": iter([]),
    "a type": int,
    "a huge number": 10**400,
    "not a number": numpy.float64("nan"),
}


async def _never() -> Receipt:
    raise JobNotFound("one")


GOOD: Final[dict[str, Any]] = {
    "type": "work",
    "id": "one",
    "ids": ["one"],
    "role": "monitor",
    "candidate": "me",
    "seconds": 0.0,
    "name": "reader",
    "position": 0,
    "worker": "me",
    "until": 1.0,
    "run": "run",
    "manifests": [],
    "job": None,
    "jobs": [],
    "timeout_seconds": 0.0,
    "record": None,
    "enqueue": _never,
    "tell": print,
    "since": "beginning",
    "follow": False,
}
"""What calls are given where they can't do without."""


@pytest.fixture
async def queue() -> AsyncIterator[Queue]:
    async with penstock.open("memory://") as queue:
        yield queue


def _parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return [one for one in found if one.name != "self" and one.kind is not one.VAR_KEYWORD]


CALLS: Final = [
    (name, parameter.name)
    for name, method in inspect.getmembers(Queue, inspect.isfunction)
    if not name.startswith("_")
    for parameter in _parameters_of(method)
]
IMPORTS: Final = ("enqueue_many", "import_jobs")
ENDING: Final = [("call", "timeout_seconds"), ("events", "since"), ("events", "follow")]
"""What calls are given too, so as not to wait for what nobody does."""
NEVER: Final = (
    "an array",
    "an array of one",
    "pandas.NA",
    "a complex number",
    "a hostile object",
    "an object without a class",
    "what says that it is a job",
    "an object",
)
"""What nothing is meant by, wherever it stands."""
FREE: Final = (
    "progress",
    "results",
    "error",
    "connection",
    "retry",
    "follow",
    "archived",
    "fetch",
    "tell",
    "enqueue",
)
"""Parameters that take whatever can be shown, called or has a truth."""


@pytest.mark.parametrize(("name", "parameter"), CALLS, ids=[".".join(call) for call in CALLS])
async def test_whatever_is_passed_to_a_queue_is_taken_or_refused_by_one_typed_error(
    queue: Queue, name: str, parameter: str
) -> None:
    method = getattr(queue, name)
    await queue.enqueue("before")
    for what, value in ODD.items():
        if callable(value) and parameter in FREE:
            continue  # a function like any other
        given = {
            one.name: GOOD[one.name]
            for one in _parameters_of(method)
            if one.default is one.empty or (name, one.name) in ENDING
        }
        if given.keys() & {"job", "jobs"}:
            job = await claimed(queue)
            given |= {"jobs": [NewJob("work")]} if name in IMPORTS else {"jobs": job}
            given = {"job": job} if "job" in given else given
        given[parameter] = value
        await _is_taken_or_refused(f"{name}({parameter}={what})", method, given)
    assert (await queue.enqueue("after")).status == "queued"


def _context() -> JobContext:
    return JobContext(Job("one", "default", "default", "work", 1, 0.0, 0.0), None)


def _given(make: Callable[..., Any], field: str) -> Callable[[Any], Any]:
    return lambda value: make(**{field: value})


OPTIONS: Final[dict[str, Callable[..., Any]]] = {
    "a task's option": TaskOptions,
    "a retry policy": RetryPolicy,
    "a worker's option": WorkerOptions,
    "a monitor's option": MonitorOptions,
    "a setting": Settings,
}
WORDS: Final[dict[str, Callable[[Any], Any]]] = {
    **{
        f"{kind}: {field}": _given(make, field)
        for kind, make in OPTIONS.items()
        for field in make.__struct_fields__  # type: ignore[attr-defined]
    },
    **{
        f"an option of the address: {field}": _given(partial(penstock.open, "memory://"), field)
        for field in (*Options.__struct_fields__, *Settings.__struct_fields__)
    },
    "a retry's delay": lambda value: penstock.Retry(after=value),
    "a snooze's seconds": lambda value: penstock.Snooze(seconds=value),
    "a snooze's time": lambda value: penstock.Snooze(until=value),
    "a progress": lambda value: _context().progress(value),
    "a progress's message": lambda value: _context().progress(1, value),
}


@pytest.mark.parametrize("make", WORDS.values(), ids=WORDS)
async def test_whatever_an_option_is_given_is_taken_or_refused_where_it_is_written(
    make: Callable[[Any], Any], request: pytest.FixtureRequest
) -> None:
    what = request.node.callspec.id
    for value in ODD.values():
        if callable(value) and what == "a task's option: key":
            continue  # a function of the task's arguments
        await _is_taken_or_refused(what, make, {"value": value})


@pytest.mark.parametrize("parameter", [one.name for one in _parameters_of(ImportWriter.add)])
async def test_whatever_a_row_is_given_is_taken_or_refused(parameter: str) -> None:
    with penstock.import_writer("memory://odd-rows", "run") as writer:
        for what, value in ODD.items():
            given = {"type": "work", parameter: value}
            await _is_taken_or_refused(f"add({parameter}={what})", writer.add, given)


class Text(str):
    __slots__ = ()


async def test_subclasses_and_numpys_scalars_are_taken_as_plain(queue: Queue) -> None:
    given: dict[str, Any] = {
        "queue": numpy.str_("images"),
        "priority": numpy.int64(3),
        "max_attempts": numpy.uint8(5),
        "delay_seconds": numpy.float32(0.0),
        "timeout_seconds": numpy.float64(7.5),
        "key": Text("key"),
    }
    receipt = await queue.enqueue(Text("work"), **given)
    asked: dict[str, Any] = {"n": numpy.int32(1), "lease_seconds": Fraction(61, 2)}
    [job] = await queue.claim(queues=(Text("images"),), **asked)
    assert job.id == receipt.id
    stored = (job.type, job.queue, job.priority, job.max_attempts, job.timeout_seconds, job.key)
    assert stored == ("work", "images", 3, 5, 7.5, "key")
    assert [type(one) for one in stored] == [str, str, int, int, float, str]


async def _is_taken_or_refused(
    what: str, method: Callable[..., Any], given: dict[str, Any]
) -> None:
    try:
        answer = method(**given)
        if inspect.isasyncgen(answer):
            async for _ in answer:
                break
        elif inspect.isawaitable(answer):
            await answer
        elif isinstance(answer, AbstractAsyncContextManager) and not isinstance(answer, Queue):
            async with answer:
                pass
    except (InvalidInput, JobNotFound, LeaseLost, CallTimeout, Unsupported):
        return
    except BaseException as error:
        raise AssertionError(f"{what} gave {type(error).__name__}: {error}") from error
    is_meant = not what.endswith(tuple(f"={one})" for one in NEVER))
    assert is_meant or any(f"({one}=" in what for one in FREE), f"{what} was taken"
