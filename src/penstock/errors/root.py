"""The root of the tree."""

from __future__ import annotations

from typing import Any


class PenstockError(Exception):
    """The root: `except PenstockError` catches everything that penstock raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is unpickled by calling its class with the message, which those whose
        # arguments are no message do not understand: processes and Spark's tasks send them, too.
        return _restored, (self.__class__, self.args), self.__dict__


def _restored(kind: type[PenstockError], arguments: tuple[object, ...]) -> PenstockError:
    error = kind.__new__(kind)
    error.args = arguments
    return error
