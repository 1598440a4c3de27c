"""What happened to one job."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors.root import PenstockError


class ResultInvalid(PenstockError):
    """A result that does not fit the annotation of its task; correct one of the two."""

    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"the result does not fit the annotation of task {task!r}: {problem}")
        self.task = task
        self.problem = problem


class JobProblem(PenstockError):
    """Something about one job; `id` says which."""

    def __init__(self, id: str, message: str) -> None:
        super().__init__(message)
        self.id = id


class JobNotFound(JobProblem):
    """There is no job of that id for this tenant, or no longer; check the id and the tenant.

    Of a `life` that was asked for, `known_lives` are those that the id has had.
    """

    def __init__(self, id: str, life: int | None = None, known_lives: Sequence[int] = ()) -> None:
        said = f"no job {id!r} for this tenant; it may have left after its retention"
        if known_lives:
            known = ", ".join(map(str, known_lives))
            said = f"job {id!r} has no life {life}, or its events were vacuumed; known are {known}"
        super().__init__(id, said)
        self.life = life
        self.known_lives = tuple(known_lives)


class LeaseLost(JobProblem):
    """The lease expired or is somebody else's; stop working on it, your result does not count."""

    def __init__(self, id: str) -> None:
        super().__init__(
            id,
            f"the lease on job {id!r} is no longer held: it expired, was released or was "
            "taken over. Stop working on it; whoever holds it now will finish it",
        )


class JobCancelled(JobProblem):
    """Somebody cancelled the job; stop working on it, or do not wait for it any longer."""

    def __init__(self, id: str) -> None:
        super().__init__(id, f"job {id!r} was cancelled")


class JobFailed(JobProblem):
    """The job that was called for failed for good; `kind`, `error` and `traceback` say why."""

    def __init__(self, id: str, kind: str, error: str, traceback: str | None = None) -> None:
        super().__init__(id, f"job {id!r} failed ({kind}): {error}")
        self.kind = kind
        self.error = error
        self.traceback = traceback
        """Of the last attempt, at most 4 KiB; None: it left none, or it was vacuumed."""


class ResultUndecodable(JobProblem):
    """The job completed, and its result can't be read here; open the queue with its `codec`."""

    def __init__(self, id: str, codec: str, reason: str) -> None:
        super().__init__(id, f"job {id!r} completed, but its result can't be read: {reason}")
        self.codec = codec
        self.reason = reason


class CallTimeout(JobProblem, TimeoutError):
    """The job had not ended in time and goes on; ask for it by its `id` later, or wait longer."""

    def __init__(self, id: str, timeout_seconds: float) -> None:
        super().__init__(
            id, f"job {id!r} had not ended after {timeout_seconds:g} s; it goes on without you"
        )
        self.timeout_seconds = timeout_seconds


class KeyHeld(JobProblem):
    """Another live job, the `holder`, has the key; replay this one when that has ended."""

    def __init__(self, id: str, key: str, holder: str) -> None:
        super().__init__(id, f"job {id!r} can't be replayed: its key {key!r} is held by {holder!r}")
        self.key = key
        self.holder = holder


class WrongState(JobProblem):
    """The job is in a `state` in which that can't be done to it; look at it first."""

    def __init__(self, id: str, state: str, operation: str) -> None:
        super().__init__(id, f"can't {operation} job {id!r}: it is {state}")
        self.state = state
        self.operation = operation
