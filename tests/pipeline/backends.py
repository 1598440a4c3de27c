"""The backends that keep events, for tests that run over all of them: one line each.

A backend is a URL below a folder, and how to get at what it stores past penstock, so that what is
compared with is not what is tested.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from penstock.engines.ledger.single.document import decode_document
from penstock.kernel.events import STORED_BESIDE
from penstock.ports.records import RecordStore
from penstock.runtime.services import Services
from penstock.wire.commit import encode_event
from penstock.wire.packed import unpack

EVENTS_PER_COMMIT = 1_000_000

Stored = tuple[int, list[dict[str, Any]], int | None]
"""A commit, its events, and what it weighs as an object."""


@dataclass(frozen=True)
class Backend:
    name: str
    url: Callable[[Path], str]
    stored: Callable[[Path], Iterator[Stored]]
    layout: str | None = None
    """Of those that are objects in a folder."""
    timed: Callable[[Path, Services, dict[str, float]], RecordStore] | None = None
    """Of those on servers: a store that goes by the test's clock and not by the server's."""

    def __repr__(self) -> str:
        return self.name

    def taken(self, folder: Path, warehouse: Path, cursor: int) -> Iterator[Stored]:
        """What tables have that are up to this cursor."""
        if self.layout == "tasks":
            yield from _seen(self.stored(folder), warehouse)
            return
        for commit, events, size in self.stored(folder):
            if commit <= cursor:
                yield commit, events, size


def _seen(stored: Iterator[Stored], warehouse: Path) -> Iterator[Stored]:
    """Everything, but for moves of the pipeline itself since it has looked at them last."""
    looks = json.loads((warehouse / "looks.json").read_bytes())["taken"]
    seen = max(look["further"].get("charter.json", 0) for look in looks)
    for commit, [event], size in stored:
        if event["event"] != "consumer_moved" or event["position"] <= seen:
            yield commit, [event], size


def log_of(folder: Path) -> Iterator[Stored]:
    for path in sorted((folder / "log").glob("*.jsonl")):
        header, *lines = path.read_bytes().split(b"\n")
        said = json.loads(header)
        events = [json.loads(line) for line in filter(None, lines)]
        assert len(events) == said["events"]
        yield said["commit"], events, path.stat().st_size


def document_of(folder: Path) -> Iterator[Stored]:
    document = decode_document((folder / "queue.json").read_bytes())
    kept = [*document.events, *document.aside]
    kept += [event for record in document.jobs for event in record.events]
    events = [json.loads(encode_event(event)) for event in kept]
    for path in folder.glob("archive/*/*.jsonl"):
        jobs = [json.loads(line) for line in path.read_bytes().splitlines()]
        events += [event for job in jobs for event in job["events"]]
    for path in folder.glob("aside/*/*.jsonl"):
        events += [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
    told = _tracebacks_of(folder)
    for event in events:
        if event.get("traceback") == STORED_BESIDE:
            event["traceback"] = told[_attempt_of(event)]
    by_position = {event["position"]: event for event in events}
    in_order = [by_position[position] for position in sorted(by_position)]
    for commit, those in groupby(in_order, lambda event: event["position"] // EVENTS_PER_COMMIT):
        yield commit, list(those), None


def _tracebacks_of(folder: Path) -> dict[tuple[object, ...], str]:
    paths = folder.glob("traceback/*/*.jsonl")
    lines = [line for path in paths for line in path.read_bytes().splitlines()[1:]]
    return {_attempt_of(event): event["traceback"] for event in map(json.loads, lines)}


def _attempt_of(event: dict[str, Any]) -> tuple[object, ...]:
    return event["position"], event["tenant"], event["id"], event["attempt"]


def rows_of(folder: Path) -> Iterator[Stored]:
    database = sqlite3.connect(folder / "queue.db")
    try:
        asked = "SELECT number, events FROM penstock_commits ORDER BY number"
        for commit, data in database.execute(asked).fetchall():
            _, *lines = unpack(f"commit {commit}", data).split(b"\n")
            yield commit, [json.loads(line) for line in filter(None, lines)], None
    finally:
        database.close()


def objects_of(folder: Path) -> Iterator[Stored]:
    """Each event as a commit of its own."""
    paths = [folder / "charter.json", *folder.glob("tasks/*/*.json")]
    objects = [json.loads(path.read_bytes()) for path in paths if path.exists()]
    events = [event for each in objects for event in each.get("events", ())]
    for event in sorted(events, key=lambda event: event["position"]):
        yield event["position"] // EVENTS_PER_COMMIT, [event], None


LOG = Backend("log", lambda folder: folder.as_uri(), log_of, "log")
SINGLE = Backend("single", lambda folder: f"{folder.as_uri()}?layout=single", document_of, "single")
SQLITE = Backend("sqlite", lambda folder: f"sqlite://{folder}/queue.db?fsync=off", rows_of)
TASKS = Backend("tasks", lambda folder: f"{folder.as_uri()}?layout=tasks", objects_of, "tasks")

BACKENDS = (LOG, SINGLE, SQLITE)
"""A new one is added here, and is held to everything that the others are. Layout `tasks` has no
commits, so that it is held to what does not ask for them; servers are in `databases`."""
