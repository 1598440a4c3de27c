"""What a whole queue can't do, or not now."""

from __future__ import annotations

from penstock.errors.addresses import without_credentials
from penstock.errors.root import PenstockError


class Unsupported(PenstockError):
    def __init__(self, operation: str, backend: str) -> None:
        super().__init__(f"{backend} does not support {operation}; see its capabilities")
        self.operation = operation
        self.backend = backend


class OutcomeUnknown(PenstockError):
    def __init__(self, operation: str, ids: tuple[str, ...] = ()) -> None:
        which = f" with id {', '.join(map(repr, ids[:3]))}" if ids else ""
        super().__init__(
            f"{operation}: the store did not answer in time, so it may or may not have "
            f"happened. Retrying it{which} is safe"
        )
        self.operation = operation
        self.ids = ids


class QueueClosed(PenstockError):
    def __init__(self) -> None:
        super().__init__("this queue was closed; open it again")


class Gap(PenstockError):
    def __init__(self, position: int, floor: int) -> None:
        super().__init__(
            f"events after position {position} were vacuumed up to commit {floor}; "
            "start from 'beginning' and rebuild what you derived from them"
        )
        self.position = position
        self.floor = floor


class StoredLate(PenstockError):
    def __init__(self, tenant: str, id: str | None, position: int) -> None:
        subject = "of the queue itself" if id is None else f"of job {id!r} of tenant {tenant!r}"
        super().__init__(
            f"an event {subject} was stored so late that this stream had passed its position "
            f"{position}; start the query again with a new checkpoint"
        )
        self.tenant = tenant
        self.id = id
        self.position = position


class NoQueue(PenstockError):
    def __init__(self, url: str) -> None:
        url = without_credentials(url)
        super().__init__(
            f"there is no queue at {url}; check the address, or make one with `penstock enqueue`"
        )
        self.url = url


class ClockSkew(PenstockError):
    def __init__(self, skew_seconds: float, limit_seconds: float) -> None:
        super().__init__(
            f"this machine's clock is {skew_seconds:+.1f} s from the store's, beyond "
            f"clock_skew_seconds={limit_seconds:g}; set the clock (NTP) and open again"
        )
        self.skew_seconds = skew_seconds
        self.limit_seconds = limit_seconds
