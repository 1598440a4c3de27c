"""Operations: the names of calls, by which the same call again is recognised.

A call has one, of the caller's choice or made here. A job whose id is made here needs no other: its
id is made from the operation, and so the operation asked again without an id means the same job.
One that was made for a list ends with a plus: the ids count up from it. Operations of the caller's
are never counted from, since two of them may be neighbours. Ids that the caller has chosen stay
what they are, and the operation counts for each of them.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

from penstock.client.newjob import NewJob, check_text
from penstock.runtime.services import Services

_AN_ID: Final = re.compile(r"[0-9a-f]{8}(-?)([0-9a-f]{4}\1){3}[0-9a-f]{12}")
_COUNTED: Final = "+"
_COUNTING_DIGITS: Final = 12
_COUNTING_LIMIT: Final = 16**_COUNTING_DIGITS


def name_jobs(
    jobs: list[NewJob], operation: str | None, services: Services
) -> tuple[str, list[tuple[str, str | None]]]:
    """The operation of a call; and of each job its id, and the operation it is recognised by."""
    first = jobs[0]
    if operation is None and len(jobs) == 1 and first.id is None and first.operation is None:
        # As nearly always: the id is the operation.
        made = services.new_id()
        return made, [(made, None)]
    naming = _naming(jobs, operation, services)
    return naming.operation, [naming.name(index, new) for index, new in enumerate(jobs)]


def _naming(jobs: list[NewJob], operation: str | None, services: Services) -> Naming:
    for given in [new.operation for new in jobs if new.operation is not None]:
        check_text("operation", given)
    if operation is None and len(jobs) == 1:
        operation = jobs[0].operation
    if operation is not None:
        return Naming(check_text("operation", operation), is_made=False)
    if all(new.id is not None for new in jobs):
        return Naming(short(services.new_secret()), is_made=True)
    return Naming(services.new_id() + _COUNTED * (len(jobs) > 1), is_made=True)


class Naming:
    """How the jobs of one call are named."""

    def __init__(self, operation: str, *, is_made: bool) -> None:
        self.operation = operation
        self._is_made = is_made
        self._base = operation.removesuffix(_COUNTED)
        self._is_id = _AN_ID.fullmatch(self._base) is not None
        self._is_counted = self._is_id and self._base != operation

    def name(self, index: int, new: NewJob) -> tuple[str, str | None]:
        """The id of one job, and the operation by which the queue recognises it."""
        if new.id is not None:
            return new.id, new.operation or self.operation
        if new.operation is not None:
            id = id_of(new.operation)
            return id, id
        id = self.id_of(index)
        # Just made, so nobody can have used it before, and nothing has to be looked up.
        return id, None if self._is_made else id

    def id_of(self, index: int) -> str:
        """The id of a job that was given none, by its number in the call's list."""
        if self._is_counted:
            number = (int(self._base[-_COUNTING_DIGITS:], 16) + index) % _COUNTING_LIMIT
            return f"{self._base[:-_COUNTING_DIGITS]}{number:012x}"
        if self._is_id and index == 0:
            return self._base
        # Any text of the caller's: a UUID of version 8, which is for what one makes oneself.
        digits = sha256(f"{index}/{self.operation}".encode()).hexdigest()
        return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def id_of(operation: str) -> str:
    """The id of the one job of a call that has none."""
    return Naming(check_text("operation", operation), is_made=False).id_of(0)


def short(secret: str) -> str:
    """128 random bits in hexadecimal digits as 22 characters: it stands in an event."""
    return urlsafe_b64encode(bytes.fromhex(secret)).decode().rstrip("=")
