"""What a whole queue can't do, or not now."""

from __future__ import annotations

from penstock.errors.addresses import without_credentials
from penstock.errors.root import PenstockError


class Unsupported(PenstockError):
    """This backend can't do that; `queue.capabilities` says what it can."""

    def __init__(self, operation: str, backend: str) -> None:
        super().__init__(f"{backend} does not support {operation}; see its capabilities")
        self.operation = operation
        self.backend = backend


class OutcomeUnknown(PenstockError):
    """`what` is the verb (`enqueue`, `claim`, `ack`, …) and `operation` the id of the call.

    `enqueue`, `enqueue_many`, `call` and `claim` asked again with the same `operation=` do what the
    first did, once; all others have none and can be asked again as they are.
    """

    def __init__(self, what: str, operation: str | None = None, ids: tuple[str, ...] = ()) -> None:
        how = "" if operation is None else f" with operation={operation!r}"
        super().__init__(
            f"{what}: the store did not answer in time, so it may or may not have "
            f"happened. Retrying it{how} is safe"
        )
        self.what = what
        self.operation = operation
        self.ids = ids


class QueueClosed(PenstockError):
    """The queue was closed, or is not open yet (`NotOpen`); open it, then ask again."""

    def __init__(self) -> None:
        super().__init__("this queue was closed; open it again with `penstock.open(…)`")


class NotOpen(QueueClosed):
    """The queue was made and not opened; enter it with `async with` or `with`, or start it."""

    def __init__(
        self, how: str = "`async with penstock.open(…)`, or `await queue.start()`"
    ) -> None:
        PenstockError.__init__(self, f"this queue was not opened yet: use {how}")


_OPEN_ANOTHER = "open another in the child (an App does so by itself)"


class Forked(PenstockError):
    """The queue was opened before the process was forked; open another in the child."""

    def __init__(self, what: str = "this queue was opened", instead: str = _OPEN_ANOTHER) -> None:
        super().__init__(
            f"{what} before the process was forked, and its connections and threads stayed behind: "
            f"{instead}"
        )
        self.what = what
        self.instead = instead


class Gap(PenstockError):
    """The events that a reader asked for were vacuumed, or what it has read was lost by the server;
    start again from the beginning."""

    def __init__(self, position: int, floor: int, *, is_lost: bool = False) -> None:
        if is_lost:
            problem = (
                f"the server has lost position {position}: it was restored from an older state"
            )
        else:
            problem = f"events after position {position} were vacuumed up to commit {floor}"
        super().__init__(
            f"{problem}; start from 'beginning' and rebuild what you derived from them"
        )
        self.position = position
        self.floor = floor
        self.is_lost = is_lost
        """Whether events that may have been read never happened, by what is there now."""


class StoredLate(PenstockError):
    """An event came to stand before the place that a stream had reached; start its query anew."""

    def __init__(self, tenant: str, id: str | None, position: int) -> None:
        subject = "of the queue itself" if id is None else f"of job {id!r} of tenant {tenant!r}"
        super().__init__(
            f"an event {subject} was stored so late that this stream had passed its position "
            f"{position}; start the query again with a new checkpoint"
        )
        self.tenant = tenant
        self.id = id
        self.position = position


class NoQueue(PenstockError):
    """Nothing is stored at that address; check it, or make a queue by enqueuing."""

    def __init__(self, url: str) -> None:
        url = without_credentials(url)
        super().__init__(
            f"there is no queue at {url}; check the address, or make one with `penstock enqueue`"
        )
        self.url = url


class ClockSkew(PenstockError):
    """This machine's clock is too far from the store's; set it, then open the queue again."""

    def __init__(self, skew_seconds: float, limit_seconds: float) -> None:
        super().__init__(
            f"this machine's clock is {skew_seconds:+.1f} s from the store's, beyond "
            f"clock_skew_seconds={limit_seconds:g}; set the clock (NTP) and open again"
        )
        self.skew_seconds = skew_seconds
        self.limit_seconds = limit_seconds


class HookFailed(PenstockError):
    """A start hook of an app raised, so its worker does not begin."""

    def __init__(self, hook: str, problem: str, where: str) -> None:
        super().__init__(f"the start hook {hook!r} failed: {problem} ({where}); no job was claimed")
        self.hook = hook
        self.problem = problem


class ChildExited(PenstockError):
    """A task that a handler or a hook had started called `sys.exit()`; `error` is what it raised.

    It ends whoever awaits that task and, in the end, the attempt: the worker goes on.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"a task that it had started raised {_name_exit(error)}")
        self.error = error


class LoopExited(PenstockError):
    """A callback called `sys.exit()`, which ended the worker; `error` is what it raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"a callback in the event loop raised {_name_exit(error)}, which ended the worker; "
            "what it ran comes back when the leases have run out. Have it raise another error"
        )
        self.error = error


def _name_exit(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
