"""The root of the tree."""

from __future__ import annotations

from typing import Any


class Travelling(Exception):
    """One that comes back whole from another process, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By itself, an exception is made again by calling its class with the message.
        return _restored, (type(self), self.args), self.__dict__


class PenstockError(Travelling):
    """The root: `except PenstockError` catches everything that penstock raises on purpose."""


def _restored(kind: type[Travelling], arguments: tuple[object, ...]) -> Travelling:
    return kind.__new__(kind, *arguments)
