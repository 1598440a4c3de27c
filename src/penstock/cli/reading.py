"""What people type or pipe in: JSON values, times, ids, files of JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from penstock.client.newjob import NewJob, submission
from penstock.errors import InvalidInput
from penstock.kernel.job import ABSENT, DEFAULT_CODEC
from penstock.wire.values import NESTING_MAX

CONTEXT_CHARACTERS: Final = 60
"""How much of a bad text is shown around the place that is wrong."""

_FIELDS: Final = frozenset(NewJob.__struct_fields__)


def json_value(words: str | bytes, what: str) -> Any:
    """The value, or an error that points at the character that is wrong."""
    try:
        return msgspec.json.decode(words)
    except RecursionError:
        raise InvalidInput(f"{what} is nested too deep: at most {NESTING_MAX} levels") from None
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} is not UTF-8") from None
    except msgspec.MsgspecError as error:
        raise _not_json(words, what, error) from None


def payload_value(argument: str | None) -> Any:
    """A payload from the command line or, for `-` or nothing, from stdin; none there is null."""
    if argument is not None and argument != "-":
        return json_value(argument, "the payload")
    if sys.stdin.isatty():
        from penstock.cli.output import err

        err().print("reading the payload as JSON from the terminal; end it with ctrl-d")
    words = sys.stdin.read()
    return json_value(words, "the payload on stdin") if words.strip() else None


def ids_of(arguments: list[str]) -> list[str]:
    """Ids as given; `-` stands for one a line on stdin."""
    if arguments == ["-"]:
        return [line.strip() for line in sys.stdin if line.strip()]
    return arguments


def moment(words: str) -> float:
    """A time: ISO 8601, where no zone means UTC, or seconds since the epoch."""
    try:
        return float(words)
    except ValueError:
        pass
    try:
        parsed = datetime.fromisoformat(words)
    except ValueError:
        raise InvalidInput(
            f"{words!r} is not a time: write 2026-11-15T10:00 (UTC), 2026-11-15T10:00+02:00 "
            "or seconds since the epoch"
        ) from None
    return (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()


class Refusal(NamedTuple):
    """A line that is as it should be, of a job that can't be added all the same."""

    reason: str


class JobLines:
    """A file of JSON lines, checked to the last line before anything is done with the first."""

    def __init__(self, path: Path, convert: Callable[[Any], NewJob | Refusal | None]) -> None:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        self._name = "stdin" if str(path) == "-" else path.name
        self._convert = convert
        self._lines = data.splitlines()
        self.skipped = 0
        self.count = 0
        self.refused: list[str] = []
        """What is wrong with lines that are left out, while the others are taken."""
        for where, new in self._jobs():
            if isinstance(new, Refusal):
                self.refused.append(f"{where}: {new.reason}")
            elif new is None:
                self.skipped += 1
            else:
                self.count += 1

    def batches(self, size: int) -> Iterator[list[NewJob]]:
        batch: list[NewJob] = []
        for _, new in self._jobs():
            if isinstance(new, NewJob):
                batch.append(new)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _jobs(self) -> Iterator[tuple[str, NewJob | Refusal | None]]:
        for number, line in enumerate(self._lines, start=1):
            if line.strip():
                where = f"line {number} of {self._name}"
                yield where, self._job(line, where)

    def _job(self, line: bytes, where: str) -> NewJob | Refusal | None:
        value = json_value(line, where)
        try:
            new = self._convert(value)
            if isinstance(new, NewJob):
                submission(new, new.id or "id", ABSENT, DEFAULT_CODEC, None)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}; nothing was enqueued") from None
        return new


def new_job(value: Any, *, ignore_unknown: bool = False) -> NewJob:
    """A job from an object with the parameters of `enqueue`."""
    if not isinstance(value, dict):
        raise InvalidInput('a job is an object, like {"type": "resize", "payload": {"id": 7}}')
    unknown = set(value) - _FIELDS
    if unknown and not ignore_unknown:
        known = ", ".join(NewJob.__struct_fields__)
        raise InvalidInput(f"a job has no {min(unknown)!r}; it has {known}")
    try:
        return msgspec.convert(value, NewJob)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from None


def _not_json(words: str | bytes, what: str, error: Exception) -> InvalidInput:
    """Says what is wrong; its note shows the place and points at it."""
    try:
        text = words if isinstance(words, str) else words.decode("utf-8")
        json.loads(text)
    except RecursionError:
        return InvalidInput(f"{what} is nested too deep: at most {NESTING_MAX} levels")
    except UnicodeDecodeError:
        return InvalidInput(f"{what} is not UTF-8")
    except json.JSONDecodeError as found:
        line = text.splitlines()[found.lineno - 1] if text else ""
        start = max(found.colno - 1 - CONTEXT_CHARACTERS, 0)
        shown = line[start : start + 2 * CONTEXT_CHARACTERS]
        place = f"character {found.colno}" + (f" of line {found.lineno}" if "\n" in text else "")
        problem = found.msg[:1].lower() + found.msg[1:]
        refused = InvalidInput(f"{what} is not JSON: {problem} at {place}")
        refused.add_note(f"  {shown}\n  {' ' * (found.colno - 1 - start)}^")
        return refused
    # The standard library is more lenient, with NaN for example.
    return InvalidInput(f"{what} is not JSON: {error}")
