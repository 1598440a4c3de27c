"""Calls that can't be right: nothing was sent."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors.addresses import without_credentials
from penstock.errors.root import PenstockError


class InvalidInput(PenstockError, ValueError):
    """The arguments of a call can't be right; nothing was sent to the store."""


class InvalidURL(InvalidInput):
    """An address that names no queue; `problem` says what is wrong with it."""

    def __init__(self, url: str, problem: str) -> None:
        url = without_credentials(url)
        said = f"{url!r} is not a queue's address" if url else "no queue's address"
        super().__init__(f"{said}: {problem}")
        self.url = url
        self.problem = problem


class InvalidJob(InvalidInput):
    """A name, id, time or option that can't be used; `field` says which, `rule` what can."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}={shown(value)} can't be used: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


class ArgumentsInvalid(InvalidInput):
    """Arguments that do not fit a task's annotations; pass others, or change the annotations."""

    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"the arguments do not fit the annotations of task {task!r}: {problem}")
        self.task = task
        self.problem = problem


class InvalidTask(InvalidInput):
    """A function that can't be a task, or not with that name or option; declare it otherwise."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"task {name!r}: {problem}")
        self.name = name
        self.problem = problem


class InvalidHook(InvalidInput):
    """A function that can't be called as a hook or middleware is; give it those parameters."""

    def __init__(self, decorator: str, problem: str, parameters: Iterable[str]) -> None:
        wanted = ", ".join(parameters)
        super().__init__(f"@app.{decorator}: {problem}; it is called with ({wanted})")
        self.decorator = decorator
        self.problem = problem


class UnknownType(InvalidInput):
    """No task of the app runs jobs of this type."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"this app has no task {name!r}; it has {names}")
        self.type = name


class InvalidOption(InvalidInput):
    """An option of the Spark data source that can't be used; `rule` says what can."""

    def __init__(self, option: str, value: object, rule: str) -> None:
        super().__init__(f"option {option}={shown(value)} can't be used: {rule}")
        self.option = option
        self.value = value
        self.rule = rule


class PayloadInvalid(InvalidInput):
    """A payload or result that its codec can't encode; pass plain values or name another codec."""

    def __init__(self, codec: str, problem: str, what: str = "value") -> None:
        instead = (
            "Return plain JSON types or bytes, or declare the task with another result_codec"
            if what == "result"
            else "Pass plain JSON types or bytes, or name another codec"
        )
        super().__init__(
            f"the {what} can't be stored, the {codec!r} codec can't encode it: {problem}. {instead}"
        )
        self.codec = codec
        self.problem = problem
        self.what = what


class PayloadTooLarge(InvalidInput):
    """A payload or result over the limit; open the queue with `offload=on`, or pass a reference."""

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the {what} is {size_bytes:,} bytes, over the limit of {limit_bytes:,}; "
            "open the queue with offload=on to keep large ones beside it, or pass a reference"
        )
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class BatchTooLarge(InvalidInput):
    """More than one commit can take; pass the items in several calls."""

    def __init__(
        self, call: str, items: int, size_bytes: int, items_max: int, bytes_max: int
    ) -> None:
        super().__init__(
            f"{call}: {items:,} items of {size_bytes:,} bytes, at most {items_max:,} items and "
            f"{bytes_max:,} bytes at once: pass them in several calls"
        )
        self.call = call
        self.items = items
        self.size_bytes = size_bytes
        self.items_max = items_max
        self.bytes_max = bytes_max


def shown(value: object) -> str:
    """A value in a message: short, whatever it is and however it takes being looked at."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # whatever it is, it is not what was asked for
        text = f"<{type(value).__name__} that can't be shown>"
    return text if len(text) <= 80 else text[:77] + "…"
