"""What an editor shows of a public function names each of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest
from msgspec import Struct

import penstock
from penstock import errors


def public_functions() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Each with its name and the text that an editor shows for it."""
    for name in penstock.__all__:
        public = getattr(penstock, name)
        if inspect.isfunction(public):
            yield name, public, inspect.getdoc(public) or ""
        elif inspect.isclass(public) and not issubclass(public, Enum | Struct):
            yield from methods_of(name, public)


def methods_of(name: str, public: type) -> Iterator[tuple[str, Callable[..., Any], str]]:
    for method in dir(public):
        function = inspect.getattr_static(public, method)
        if method == "__init__" and inspect.isfunction(function):
            yield f"{name}()", function, inspect.getdoc(public) or ""
        elif not method.startswith("_") and inspect.isfunction(function):
            yield f"{name}.{method}", function, inspect.getdoc(function) or ""


UNDOCUMENTED = {"self", "args", "kwargs"}
MADE_BY_PENSTOCK = {"BlockingQueue()", "ImportWriter()", "JobContext()", "Queue()", "Task()"}
"""Nobody calls these but penstock."""


@pytest.mark.parametrize(
    ("function", "text"),
    [pytest.param(function, text, id=name) for name, function, text in public_functions()
     if name not in MADE_BY_PENSTOCK],
)  # fmt: skip
def test_the_docstring_names_every_parameter(function: Callable[..., Any], text: str) -> None:
    assert text, "it has no docstring"
    parameters = set(inspect.signature(function).parameters) - UNDOCUMENTED
    missing = {name for name in parameters if f"`{name}`" not in text}
    assert not missing


def test_every_error_says_what_happened_and_what_to_do() -> None:
    """Their own words: what a class inherits is about another error."""
    silent = [name for name in errors.__all__ if not vars(getattr(errors, name)).get("__doc__")]
    assert not silent
