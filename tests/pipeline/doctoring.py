"""Logs that lie: objects of a real log rewritten, their digests made to fit again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from penstock.kernel.events import Event, JobEvent, position_of
from penstock.wire.commit import CHAIN_START, Commit, decode_commit, encode_commit

Changed = TypeVar("Changed", bound=Event)


class Log:
    """The log in a folder, commit by commit; `save` writes it back as one unbroken chain."""

    def __init__(self, queue: Path) -> None:
        self.paths = sorted((queue / "log").iterdir())
        self.commits: list[Commit] = [
            decode_commit(path.name, path.read_bytes()) for path in self.paths
        ]

    def find(self, wanted: Callable[[Event], bool]) -> tuple[int, JobEvent]:
        """The first such event, and the index of its commit."""
        for index, commit in enumerate(self.commits):
            for event in commit.events:
                if wanted(event):
                    return index, event  # type: ignore[return-value]  # they ask for a job's
        raise LookupError("no such event")

    def append(self, index: int, event: Changed, **changes: object) -> Changed:
        """Adds an event at the end of a commit, with the position and time that belong there."""
        commit = self.commits[index]
        position = self.next_position(index)
        added = replace(event, position=position, at=commit.header.at, **changes)
        commit.events.append(added)
        return added

    def replace(self, index: int, event: JobEvent, **changes: object) -> None:
        """Has an event say something else."""
        events = self.commits[index].events
        events[events.index(event)] = replace(event, **changes)

    def next_position(self, index: int) -> int:
        commit = self.commits[index]
        return position_of(commit.header.commit, len(commit.events))

    def save(self) -> None:
        previous = CHAIN_START
        for path, commit in zip(self.paths, self.commits, strict=True):
            header = commit.header
            data, previous = encode_commit(
                commit.events, commit=header.commit, commit_id=header.commit_id,
                writer=header.writer, at=header.at, previous=previous,
            )  # fmt: skip
            path.write_bytes(data)
