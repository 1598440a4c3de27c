"""What must hold of bulk imports: none or all, once, and never after it was given up."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.kernel.events import Admitted, ImportAborted, ImportAdvanced, Imported, ImportStaged
from penstock.kernel.invariants.record import Call, Committed, Violation, about


def imports_happen_once(log: Iterable[Committed]) -> list[Violation]:
    """3. A run is imported by one commit at most, never after it was aborted, and no batch of a
    query after a higher one. A row is admitted once, and only when its run was imported."""
    found: list[Violation] = []
    runs = _Runs()
    for commit in log:
        for event in commit.events:
            match event:
                case Imported() | ImportStaged():
                    problem = runs.begin(event, commit.commit)
                case ImportAdvanced():
                    problem = runs.advance(event)
                case ImportAborted():
                    problem = runs.abort(event)
                case Admitted():
                    problem = runs.admit(event)
                    if problem:
                        found.append(about(3, commit, event, problem))
                    continue
                case _:
                    continue
            if problem:
                found.append(Violation(3, f"run {event.run!r}: {problem}", commit.commit))
    return found


class _Runs:
    def __init__(self) -> None:
        self._commits: dict[str, int] = {}
        self._aborted: set[str] = set()
        self._staged: dict[str, tuple[int, int]] = {}
        self._batches: dict[str, tuple[int, str]] = {}
        self._admitted: dict[tuple[str, str], tuple[int, bytearray]] = {}
        """By tenant and run: the import's position, and a mark for each row."""

    def begin(self, event: Imported | ImportStaged, commit: int) -> str:
        if event.run in self._aborted:
            return "imported after it was aborted"
        if self._commits.setdefault(event.run, commit) != commit:
            return f"imported again, it was by commit {self._commits[event.run]}"
        if event.query is not None and event.batch is not None:
            highest, run = self._batches.get(event.query, (-1, ""))
            if event.batch <= highest and run != event.run:
                return f"batch {event.batch} of {event.query!r} after batch {highest}"
            self._batches[event.query] = (max(highest, event.batch), event.run)
        if isinstance(event, ImportStaged):
            self._staged[event.run] = (0, event.rows)
        elif event.objects:
            rows = bytearray(event.rows)
            self._admitted[event.tenant, event.run] = (event.position, rows)
        return ""

    def advance(self, event: ImportAdvanced) -> str:
        reached, rows = self._staged.get(event.run, (0, -1))
        self._staged[event.run] = (event.reached, rows)
        if event.run in self._aborted:
            return "it goes on after it was aborted"
        if not reached <= event.reached <= rows:
            return f"from row {reached} to {event.reached} of {rows}"
        return ""

    def abort(self, event: ImportAborted) -> str:
        reached, rows = self._staged.get(event.run, (0, 0))
        self._aborted.add(event.run)
        if event.run in self._commits and (event.run not in self._staged or reached == rows):
            return "aborted after it was published"
        return ""

    def admit(self, event: Admitted) -> str:
        position, rows = self._admitted.get((event.tenant, event.run), (0, bytearray()))
        if position != event.source or event.row >= len(rows):
            return f"row {event.row} of run {event.run!r} was never imported"
        if rows[event.row]:
            return f"row {event.row} of run {event.run!r} was admitted before"
        rows[event.row] = True
        return ""


def publications_are_told(log: Iterable[Committed], calls: Iterable[Call]) -> list[Violation]:
    """1. What was said to be published is in the log, and what was refused for certain is not."""
    commits = {
        event.run: commit.commit
        for commit in log
        for event in commit.events
        if isinstance(event, Imported)
    }
    found: list[Violation] = []
    by_run: dict[str, list[Call]] = {}
    for call in calls:
        if call.kind == "publish":
            by_run.setdefault(call.operation, []).append(call)
    for run, asked in by_run.items():
        commit = commits.get(run)
        for call in asked:
            if call.succeeded and (commit is None or commit > (call.answered or 0)):
                found.append(_about_run(run, f"{call.answer}, but it is not in the log", commit))
            elif call.succeeded and call.answer == "published" and (commit or 0) <= call.asked:
                found.append(_about_run(run, "told twice that it was published now", commit))
        if commit is not None and all(call.is_certain for call in asked):
            found.append(_about_run(run, f"{asked[0].answer}, and yet it was published", commit))
    unasked = [run for run in commits if run not in by_run]
    return found + [_about_run(run, "nobody asked for it", commits[run]) for run in unasked]


def _about_run(run: str, message: str, commit: int | None) -> Violation:
    return Violation(1, f"run {run!r}: {message}", commit)
