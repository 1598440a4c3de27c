"""Backends that die at their nth call: before it is made, or before it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.ports.backend import Backend

DANGEROUS = frozenset({"execute", "keep"})
"""What changes something; a read that dies is as good as none."""


class Killed(BaseException):
    """The process is gone: nothing can catch it, nothing is cleaned up."""


class Fuse:
    """Counts the calls of all backends that it is laid in, and burns at one of them."""

    def __init__(self, burns_at: int, *, answers_are_lost: bool, burn: Callable[[], None]) -> None:
        self._left = burns_at
        self._answers_are_lost = answers_are_lost
        self._burn = burn
        self.has_burnt = False

    def wrap(self, backend: Backend) -> Backend:
        fused: Any = Fused(backend, self)
        return fused  # type: ignore[no-any-return]  # it passes on whatever it is asked

    async def call(self, method: Callable[..., Any], arguments: Any, named: Any) -> Any:
        self._left -= 1
        if self._left != 0:
            return await method(*arguments, **named)
        self.has_burnt = True
        if self._answers_are_lost:
            await method(*arguments, **named)
        self._burn()
        raise AssertionError("it should be dead")


class Fused:
    def __init__(self, backend: Backend, fuse: Fuse) -> None:
        self._backend = backend
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._backend, name)
        if name not in DANGEROUS:
            return method

        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._fuse.call(method, arguments, named)

        return call


def die() -> None:
    raise Killed
