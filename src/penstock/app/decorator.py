"""What `@app.task(…)` makes of a function, to a type checker; and what it can't make a task of.

Enqueuing a task and calling it are not the same: who enqueues passes no context and waits for no
coroutine, who calls gets the function as it was written. So there are two kinds of tasks to a type
checker, which know what their function returns; when the program runs, both are `Task`. What a
coroutine gives is found out by each method and not by the decorator: where the result has an `Any`
in it, mypy could not tell its overloads apart and would check nothing at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

from penstock.app.context import JobContext
from penstock.app.task import Enqueuer, Task, TaskChanges
from penstock.errors import InvalidTask

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)

if TYPE_CHECKING:

    class Calling(Generic[Parameters, Returned]):
        """Whose `call` gives what the function returns, or what that gives when it is awaited."""

        @overload
        async def call(
            self: Calling[Parameters, Awaitable[Result]],
            *args: Parameters.args,
            **kwargs: Parameters.kwargs,
        ) -> Result: ...
        @overload
        async def call(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned: ...
        async def call(self, *args: Any, **kwargs: Any) -> Any: ...

        @overload
        def call_sync(
            self: Calling[Parameters, Awaitable[Result]],
            *args: Parameters.args,
            **kwargs: Parameters.kwargs,
        ) -> Result: ...
        @overload
        def call_sync(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned: ...
        def call_sync(self, *args: Any, **kwargs: Any) -> Any: ...

    class TypedEnqueuer(Calling[Parameters, Returned], Enqueuer[Parameters, Any]): ...

    class TypedTask(Calling[Parameters, Returned], Task[Parameters, Any]):
        def options(
            self, **changes: Unpack[TaskChanges]
        ) -> TypedEnqueuer[Parameters, Returned]: ...

    class FunctionTask(TypedTask[Parameters, Returned]):
        def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned: ...

    class ContextTask(TypedTask[Parameters, Returned]):
        def __call__(
            self, context: JobContext, /, *args: Parameters.args, **kwargs: Parameters.kwargs
        ) -> Returned: ...

else:
    TypedTask = FunctionTask = ContextTask = Task


class TaskDecorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, Parameters], Returned], /
    ) -> ContextTask[Parameters, Returned]: ...
    @overload
    def __call__(
        self, function: Callable[Parameters, Returned], /
    ) -> FunctionTask[Parameters, Returned]: ...


def name_of(function: object) -> str:
    """The name that a task has if none was given."""
    return function if isinstance(function, str) else str(getattr(function, "__name__", ""))


def require_function(name: str, function: object) -> None:
    """Refuses, where it is written, what a worker could not run."""
    if isinstance(function, str):
        raise InvalidTask(name, f"a name is passed by its keyword: @app.task(name={function!r})")
    if inspect.isclass(function):
        raise InvalidTask(name, "a class is no task; decorate a function that makes one of it")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(
            name, "a generator is no task, since nobody would iterate over it: return a list"
        )
    if not callable(function):
        raise InvalidTask(name, f"a task is a function, not of type {type(function).__name__}")
