"""Calls that can't be right: nothing was sent."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors.addresses import without_credentials
from penstock.errors.root import PenstockError


class InvalidInput(PenstockError, ValueError):
    """The arguments of a call can't be right; nothing was sent to the store."""


class InvalidURL(InvalidInput):
    def __init__(self, url: str, problem: str) -> None:
        url = without_credentials(url)
        super().__init__(f"{url!r} is not a queue's address: {problem}")
        self.url = url
        self.problem = problem


class InvalidJob(InvalidInput):
    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}={_short(value)} can't be used: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


class ArgumentsInvalid(InvalidInput):
    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"the arguments do not fit the annotations of task {task!r}: {problem}")
        self.task = task
        self.problem = problem


class InvalidTask(InvalidInput):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name!r} can't be a task: {problem}")
        self.name = name
        self.problem = problem


class UnknownTask(InvalidInput):
    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"this app has no task {name!r}; it has {names}")
        self.name = name


class InvalidOption(InvalidInput):
    def __init__(self, option: str, value: object, rule: str) -> None:
        super().__init__(f"option {option}={_short(value)} can't be used: {rule}")
        self.option = option
        self.value = value
        self.rule = rule


class PayloadInvalid(InvalidInput):
    def __init__(self, codec: str, problem: str) -> None:
        super().__init__(
            f"the {codec!r} codec can't encode this value: {problem}. "
            "Pass plain JSON types or bytes, or name another codec"
        )
        self.codec = codec
        self.problem = problem


class PayloadTooLarge(InvalidInput):
    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the {what} is {size_bytes:,} bytes, over the limit of {limit_bytes:,}; "
            "open the queue with offload=on to keep large ones beside it, or pass a reference"
        )
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
