"""What happened to one run of a bulk import."""

from __future__ import annotations

from penstock.errors.root import PenstockError


class RunProblem(PenstockError):
    """Something about one run of a bulk import; `run` says which."""

    def __init__(self, run: str, message: str) -> None:
        super().__init__(message)
        self.run = run


class RunAborted(RunProblem):
    """The run was given up and can't be published; write its rows as a new run."""

    def __init__(self, run: str) -> None:
        super().__init__(
            run, f"run {run!r} was aborted and its objects deleted; write its rows as a new run"
        )


class RunPublished(RunProblem):
    """The run is published and can't be aborted; cancel its jobs instead."""

    def __init__(self, run: str) -> None:
        super().__init__(
            run, f"run {run!r} is published and can't be aborted; cancel its jobs instead"
        )


class RunStaged(RunProblem):
    """The run's rows are enqueued in batches, so there is nothing to publish; go on importing."""

    def __init__(self, run: str) -> None:
        super().__init__(
            run, f"the rows of run {run!r} are enqueued in batches; go on with import_rows"
        )


class RunUnknown(RunProblem):
    """Nothing was staged under that name; begin with `import_rows`."""

    def __init__(self, run: str) -> None:
        super().__init__(run, f"no run {run!r} is staged; begin with import_rows")
