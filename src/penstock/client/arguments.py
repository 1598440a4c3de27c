"""One or many: how calls take a job, an id or a list of them, and answer in kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from penstock.client.newjob import NewJob, check_name
from penstock.client.tracebacks import cut_traceback, traceback_of
from penstock.errors import BatchTooLarge, InvalidInput, InvalidJob, PenstockError
from penstock.errors.input import shown
from penstock.kernel.job import Job, Lease, State
from penstock.kernel.plain import POSITION_MAX, is_a, plain_list, plain_text, plain_whole
from penstock.ports.backend import CALL_BYTES_MAX, CALL_ITEMS_MAX, WorkerRecord
from penstock.wire.values import Unreadable, as_read

PROGRESS_MESSAGE_CHARACTERS_MAX: Final = 200
NEW_JOBS: Final = "a list of penstock.NewJob"

Value = TypeVar("Value")

_ONE: Final = (Job, str)


def raised(outcome: Value | PenstockError) -> Value:
    if isinstance(outcome, PenstockError):
        raise outcome
    return outcome


def one_or_all(asked: object, outcomes: list[Any]) -> Any:
    """One job raises or returns its own; a list returns one outcome per item."""
    return raised(outcomes[0]) if issubclass(type(asked), _ONE) else outcomes


def many_jobs(jobs: Job | Sequence[Job]) -> Sequence[Job]:
    given: Any = jobs
    if issubclass(type(given), Job):
        return [given]
    return _all_of(Job, "jobs", jobs, "pass what `claim` returned, one or a list")


def one_job(job: Job) -> Job:
    if not is_a(job, Job):
        raise InvalidJob("job", job, "pass one that `claim` returned")
    return job


def many_results(jobs: Sequence[Job], results: object) -> list[Any]:
    many = plain_list("results", results, "a list with one result for each job")
    if len(many) != len(jobs):
        raise InvalidInput(f"{len(many)} results for {len(jobs)} jobs: pass one for each")
    return many


def name_hint(name: str, known: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> str:
    """What an unknown name may stand for, and what is known; `elsewhere` has others' words."""
    names = list(known)
    near = (elsewhere or {}).get(name) or next(iter(get_close_matches(name, names, 1)), None)
    meant = "" if near is None else f"; {near!r} may be what you mean"
    return f"{meant}; known are {', '.join(names)}"


def many_new_jobs(jobs: Iterable[NewJob]) -> list[NewJob]:
    return _all_of(NewJob, "jobs", jobs, NEW_JOBS)


def many_ids(ids: str | Sequence[str]) -> list[str]:
    if is_a(ids, str):
        return [plain_id(ids)]
    many = plain_list("id", ids, "it must be a string, or a list of them")
    return [plain_id(id) for id in many]


def plain_id(id: object) -> str:
    """Any text may be asked about, but for one that no database takes."""
    text = plain_text("id", id)
    if "\0" in text:
        raise InvalidJob("id", id, "no id has the character NUL")
    return text


def lease_of(job: Job) -> Lease:
    if job.lease is None:
        raise InvalidInput(f"job {job.id!r} carries no lease: pass a job that `claim` returned")
    return job.lease


def name_tuple(field: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    many = plain_list(field, names, "pass a list of names")
    return tuple(check_name(field, name) for name in many)


def state_named(name: str) -> State:
    if not is_a(name, str) or str.__str__(name) not in set(State):
        raise InvalidInput(f"state={shown(name)}: one of {', '.join(State)}{_view_hint(name)}")
    return State(name)


def _view_hint(name: object) -> str:
    """What people call states and the queue does not: views of pending, told apart by the job."""
    ways = {"scheduled": "job.run_at > time.time()", "retrying": "job.failures > 0"}
    way = ways.get(str.__str__(name)) if is_a(name, str) else None
    if way is None:
        return ""
    return f"; {name} jobs are pending ones: take state='pending' and those with {way}"


def position_named(since: object) -> int | None:
    """The position that events are asked from; None is that of the newest."""
    words = plain_text("since", since) if is_a(since, str) else None
    if words == "now":
        return None
    rule = "'beginning', 'now' or a position"
    return 0 if words == "beginning" else plain_position("since", since, rule)


def plain_position(field: str, value: object, rule: str) -> int:
    return plain_whole(field, value, 0, POSITION_MAX, rule)


def check_function(field: str, function: object) -> None:
    if not callable(function):
        raise InvalidJob(field, function, "it must be a function")


def readable_worker(record: WorkerRecord) -> WorkerRecord:
    if not is_a(record, WorkerRecord):
        raise InvalidJob("record", record, "it must be a WorkerRecord")
    try:
        return as_read(record)
    except Unreadable as error:
        raise InvalidInput(f"this can't be registered as a worker: {error}") from None


def check_count(call: str, count: int) -> None:
    if count > CALL_ITEMS_MAX:
        raise BatchTooLarge(call.lower(), count, 0, CALL_ITEMS_MAX, CALL_BYTES_MAX)


def described_traceback(error: object, traceback: str | None) -> str | None:
    """The one that was passed, or else the one that an exception carries."""
    if traceback is None:
        return traceback_of(error) if is_a(error, BaseException) else None
    if not is_a(traceback, str):
        raise InvalidJob("traceback", traceback, "a text, as `traceback.format_exc()` gives")
    return cut_traceback(str.__str__(traceback)) or None


def progress_message(words: str) -> str:
    """A few words, as they can be stored: what is longer is cut, and harms no job."""
    if not is_a(words, str):
        raise InvalidInput(f"the message of a progress is text, not {type(words).__name__}")
    cut = str.__str__(words)[:PROGRESS_MESSAGE_CHARACTERS_MAX]
    return cut if cut.isascii() else cut.encode("utf-8", "backslashreplace").decode()


def _all_of(kind: type[Value], field: str, values: object, rule: str) -> list[Value]:
    many = plain_list(field, values, rule)
    for one in many:
        if not is_a(one, kind):
            raise InvalidJob(field, one, rule)
    return many
