"""What a store of records is told of those who wait for work, and what it tells them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Wake(Struct, frozen=True, gc=False):
    """Work of one kind has come, or will soon: those who wait for such are to be told."""

    tenant: str
    queue: str
    type: str
    jobs: int | None
    """As many as that, the longest waiting first; None: all of them."""


class Waiter(Struct, frozen=True, gc=False):
    """Somebody who waits for work at one handle; its name there is the same for the same kind."""

    name: str
    stays: bool
    """Whether others are waiting under that name, who go on whatever is due now."""


class Heard(Struct, frozen=True):
    """What a handle was told by others.

    Wake-ups may be lost, and all those who were noted may be forgotten: whoever waits looks again
    from time to time.
    """

    is_news: bool = False
    """Somebody may have committed."""
    is_for_all: bool = False
    """Whoever waits has to look."""
    wakes: Sequence[tuple[str, Wake]] = ()
    """Names of waiters of this handle, and what has come for them."""
