"""Where something is in the user's own files, for messages about it."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_PENSTOCK: Final = str(Path(__file__).parent.parent)
_LIBRARIES: Final = tuple(
    sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")
)


def name_and_place(function: Callable[..., Any]) -> str:
    """A function as its author knows it: `notify (shop/hooks.py:12)`."""
    bare = inspect.unwrap(function)
    bare = getattr(bare, "func", bare)  # of a functools.partial
    name = str(getattr(bare, "__qualname__", None) or repr(bare))
    code = getattr(bare, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def raised_at(error: BaseException) -> str:
    """The last line of the user's own that led to an error: `shop/tasks.py:7`.

    An application may itself be installed among the libraries. Then it is the last line that is
    not penstock's.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [one for one in frames if not one.filename.startswith((_PENSTOCK, "<frozen "))]
    own = [one for one in foreign if not one.filename.startswith(_LIBRARIES)]
    last = (own or foreign or list(frames))[-1]
    return f"{last.filename}:{last.lineno}"
