"""What happened to one job."""

from __future__ import annotations

from penstock.errors.root import PenstockError


class ResultInvalid(PenstockError):
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
    def __init__(self, id: str) -> None:
        super().__init__(id, f"no job {id!r} for this tenant; it may have left after its retention")


class LeaseLost(JobProblem):
    def __init__(self, id: str) -> None:
        super().__init__(
            id,
            f"the lease on job {id!r} is no longer held: it expired, was released or was "
            "taken over. Stop working on it; whoever holds it now will finish it",
        )


class JobCancelled(JobProblem):
    def __init__(self, id: str) -> None:
        super().__init__(id, f"job {id!r} was cancelled")


class JobFailed(JobProblem):
    def __init__(self, id: str, kind: str, error: str) -> None:
        super().__init__(id, f"job {id!r} failed ({kind}): {error}")
        self.kind = kind
        self.error = error


class CallTimeout(JobProblem, TimeoutError):
    def __init__(self, id: str, timeout_seconds: float) -> None:
        super().__init__(
            id, f"job {id!r} had not ended after {timeout_seconds:g} s; it goes on without you"
        )
        self.timeout_seconds = timeout_seconds


class KeyHeld(JobProblem):
    def __init__(self, id: str, key: str, holder: str) -> None:
        super().__init__(id, f"job {id!r} can't be replayed: its key {key!r} is held by {holder!r}")
        self.key = key
        self.holder = holder


class WrongState(JobProblem):
    def __init__(self, id: str, state: str, operation: str) -> None:
        super().__init__(id, f"can't {operation} job {id!r}: it is {state}")
        self.state = state
        self.operation = operation
