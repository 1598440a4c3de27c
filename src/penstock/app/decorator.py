"""What `@app.task(…)` is to a type checker: parameters stay, a leading context goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, overload

from penstock.app.context import JobContext
from penstock.app.task import Task

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class TaskDecorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, Parameters], Awaitable[Result]], /
    ) -> Task[Parameters, Result]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, Parameters], Result], /
    ) -> Task[Parameters, Result]: ...
    @overload
    def __call__(
        self, function: Callable[Parameters, Awaitable[Result]], /
    ) -> Task[Parameters, Result]: ...
    @overload
    def __call__(self, function: Callable[Parameters, Result], /) -> Task[Parameters, Result]: ...
