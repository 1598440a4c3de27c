"""The names of all objects that the ledger stores, relative to the queue's root.

Both layouts:
    penstock.json                          format level and layout; written once
    knock                                  a slow writer asking the fast ones to wait
    data/{job}/{milliseconds}-{digest}-{nonce}  payloads and results above the inline limit
    import/{run}/{nonce}.jsonl             rows of a bulk import
    worker/{id}.json                       registrations, for people to look at
    leader/{role}.json                     who does the housekeeping
    probe/{nonce}                          short-lived: do conditional writes work, what time is it
Layout `log`:
    log/00000000000000000042.jsonl         commit 42
    checkpoint/00000000000000000042.jsonl  all live jobs as of commit 42
    floor                                  the first slot that still counts
Layout `single`:
    queue.json                             the whole queue
    archive/2026-11-15T10/{commit id}.jsonl  finished jobs that left in that hour

Commit numbers have twenty digits, so that names sort as numbers do. Ids are written in a fixed
alphabet: letters, digits, `-` and `_` as they are, every other byte as `=` and two hex digits.
"""

from __future__ import annotations

from typing import Final

MARKER: Final = "penstock.json"
FLOOR: Final = "floor"
KNOCK: Final = "knock"
LOG: Final = "log/"
CHECKPOINTS: Final = "checkpoint/"
DATA: Final = "data/"
IMPORTS: Final = "import/"
WORKERS: Final = "worker/"
PROBES: Final = "probe/"
QUEUE: Final = "queue.json"
ARCHIVE: Final = "archive/"

_SUFFIX: Final = ".jsonl"
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def log_key(commit: int) -> str:
    return f"{LOG}{commit:020d}{_SUFFIX}"


def checkpoint_key(commit: int) -> str:
    return f"{CHECKPOINTS}{commit:020d}{_SUFFIX}"


def commit_in(key: str) -> int | None:
    """The commit that a name of the log or of a checkpoint is about; None if it is neither."""
    digits = key.rpartition("/")[2].removesuffix(_SUFFIX)
    return int(digits) if digits.isdecimal() and len(digits) == 20 else None


def data_key(id: str, at: float, digest: str, nonce: str) -> str:
    return f"{DATA}{encoded(id)}/{int(at * 1_000):012x}-{digest}-{nonce}"


def digest_in(key: str) -> str:
    """The digest that the content of a side object must have."""
    return key.rsplit("/", 1)[-1].split("-")[1]


def import_key(run: str, name: str) -> str:
    """Runs have names that can stand in a key as they are."""
    return f"{run_prefix(run)}{name}{_SUFFIX}"


def run_prefix(run: str) -> str:
    return f"{IMPORTS}{run}/"


def run_in(key: str) -> str:
    """The run that an import object was written for."""
    return key.removeprefix(IMPORTS).partition("/")[0]


def leader_key(role: str) -> str:
    return f"leader/{role}.json"


def encoded(name: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02x}" for byte in name.encode("utf-8"))
