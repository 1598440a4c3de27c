"""The names of all objects that the ledger stores, relative to the queue's root.

Both layouts, besides what every engine keeps (`engines/names.py`):
    penstock.json                          format level and layout; written once
    knock                                  a slow writer asking the fast ones to wait
    import/{run}/{nonce}.jsonl             rows of a bulk import
Layout `log`:
    log/00000000000000000042.jsonl         commit 42
    checkpoint/00000000000000000042.jsonl  all live jobs as of commit 42
    floor                                  the first slot that still counts
Layout `single`:
    queue.json                             the whole queue
    archive/2026-11-15T10/{commit id}.jsonl  finished jobs that left in that hour
    aside/2026-11-15T10/{commit id}.jsonl    older events that are of no job
    traceback/00000000000000000042/{commit id}.jsonl  commit 42's failures, with their tracebacks

Commit numbers have twenty digits, so that names sort as numbers do.
"""

from __future__ import annotations

from typing import Final

MARKER: Final = "penstock.json"
FLOOR: Final = "floor"
KNOCK: Final = "knock"
LOG: Final = "log/"
CHECKPOINTS: Final = "checkpoint/"
IMPORTS: Final = "import/"
QUEUE: Final = "queue.json"
ARCHIVE: Final = "archive/"
ASIDE: Final = "aside/"
TRACEBACKS: Final = "traceback/"

_SUFFIX: Final = ".jsonl"


def log_key(commit: int) -> str:
    return f"{LOG}{commit:020d}{_SUFFIX}"


def checkpoint_key(commit: int) -> str:
    return f"{CHECKPOINTS}{commit:020d}{_SUFFIX}"


def traceback_key(commit: int, commit_id: str) -> str:
    return f"{traceback_prefix(commit)}{commit_id}{_SUFFIX}"


def traceback_prefix(commit: int) -> str:
    return f"{TRACEBACKS}{commit:020d}/"


def commit_in(key: str) -> int | None:
    """The commit that a name of the log or of a checkpoint is about; None if it is neither."""
    digits = key.rpartition("/")[2].removesuffix(_SUFFIX)
    return int(digits) if digits.isdecimal() and len(digits) == 20 else None


def import_key(run: str, name: str) -> str:
    """Runs have names that can stand in a key as they are."""
    return f"{run_prefix(run)}{name}{_SUFFIX}"


def run_prefix(run: str) -> str:
    return f"{IMPORTS}{run}/"


def run_in(key: str) -> str:
    """The run that an import object was written for."""
    return key.removeprefix(IMPORTS).partition("/")[0]
