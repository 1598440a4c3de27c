"""One or many: how calls take a job, an id or a list of them, and answer in kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from penstock.client.newjob import check_name
from penstock.errors import InvalidInput, InvalidJob, PenstockError
from penstock.kernel.job import Job, Lease, State

ITEMS_PER_CALL_MAX: Final = 100_000
ERROR_CHARACTERS_MAX: Final = 10_000

Value = TypeVar("Value")


def raised(outcome: Value | PenstockError) -> Value:
    if isinstance(outcome, PenstockError):
        raise outcome
    return outcome


def one_or_all(asked: object, outcomes: list[Any]) -> Any:
    """One job raises or returns its own; a list returns one outcome per item."""
    return raised(outcomes[0]) if isinstance(asked, Job | str) else outcomes


def many_jobs(jobs: Job | Sequence[Job]) -> Sequence[Job]:
    return [jobs] if isinstance(jobs, Job) else jobs


def many_ids(ids: str | Sequence[str]) -> list[str]:
    if not isinstance(ids, Iterable):
        raise InvalidJob("id", ids, "it must be a string, or a list of them")
    many = [ids] if isinstance(ids, str) else list(ids)
    for id in many:
        if not isinstance(id, str):
            raise InvalidJob("id", id, "it must be a string")
    return many


def lease_of(job: Job) -> Lease:
    if job.lease is None:
        raise InvalidInput(f"job {job.id!r} carries no lease: pass a job that `claim` returned")
    return job.lease


def name_tuple(field: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise InvalidInput(f"{field}={names!r}: pass a list of names")
    for name in names:
        check_name(field, name)
    return tuple(names)


def state_named(name: str) -> State:
    try:
        return State(name)
    except ValueError:
        raise InvalidInput(f"state={name!r}: one of {', '.join(State)}") from None


def check_count(call: str, count: int) -> None:
    if count > ITEMS_PER_CALL_MAX:
        raise InvalidInput(f"{call}: {count:,} items, at most {ITEMS_PER_CALL_MAX:,} at once")


def describe(error: object) -> str:
    """What to record of an error: its words, or at least what kind of thing it is."""
    words = (str(error) or type(error).__name__ if error else "")[:ERROR_CHARACTERS_MAX]
    # Names of files may hold bytes that no text can; the failure has to be recorded all the same.
    return words if words.isascii() else words.encode("utf-8", "backslashreplace").decode()
