"""What can go wrong between a client and its object store, by name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal["put", "get", "list", "delete"]


class Fault(Enum):
    """One thing that went wrong in one request."""

    ERROR = "refused before it was applied"
    LOST_REQUEST = "never arrived, and the client can't know"
    LOST_ANSWER = "applied, but the answer was lost"
    LATE = "applied after the client gave up"
    ECHO = "applied, then reported as refused by its own repetition"
    THROTTLED = "told to slow down"
    DENIED = "the credentials had expired"
    SLOW = "answered slowly"
    TRUNCATED = "answered with a part of the data"
    FLIPPED = "answered with one bit changed"
    MISSED_RECENT = "listed without what was put lately"
    LOST_PAGE = "listed without one page"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often what goes wrong. Fields without a unit are probabilities of one request."""

    put_error: float = 0.0
    put_lost_request: float = 0.0
    put_lost_answer: float = 0.0
    put_late: float = 0.0
    put_echo: float = 0.0

    get_error: float = 0.0
    get_slow: float = 0.0
    get_truncated: float = 0.0
    get_flipped: float = 0.0

    list_error: float = 0.0
    list_missed_recent: float = 0.0
    list_lost_page: float = 0.0

    delete_error: float = 0.0
    delete_lost_answer: float = 0.0

    # Spells: once begun, every request fails until they are over.
    throttling_begins: float = 0.0
    throttling_seconds: float = 5.0
    denial_begins: float = 0.0
    denial_seconds: float = 10.0

    # Every put overwrites: what an S3-alike does that knows no conditions. The probe must see it.
    conditions_ignored: bool = False

    # A request takes half of its latency on the way and half on the way back.
    latency_seconds: float = 0.0
    latency_spread: float = 0.5
    answer_timeout_seconds: float = 0.0
    late_seconds_max: float = 30.0
    get_slow_seconds: float = 10.0
    list_recent_seconds: float = 2.0
    list_page_keys: int = 100

    def __post_init__(self) -> None:
        for operation in CHANCES:
            chances = self.chances(operation)
            if any(chance < 0 for _, chance in chances) or sum(c for _, c in chances) > 1:
                raise ValueError(f"the probabilities of what befalls a {operation} exceed 1")

    def chances(self, operation: Operation) -> tuple[tuple[Fault, float], ...]:
        """What may befall this operation, and how likely that is."""
        return tuple((fault, getattr(self, field)) for fault, field in CHANCES[operation])


CHANCES: dict[Operation, tuple[tuple[Fault, str], ...]] = {
    "put": (
        (Fault.ERROR, "put_error"),
        (Fault.LOST_REQUEST, "put_lost_request"),
        (Fault.LOST_ANSWER, "put_lost_answer"),
        (Fault.LATE, "put_late"),
        (Fault.ECHO, "put_echo"),
        (Fault.THROTTLED, "throttling_begins"),
        (Fault.DENIED, "denial_begins"),
    ),
    "get": (
        (Fault.ERROR, "get_error"),
        (Fault.SLOW, "get_slow"),
        (Fault.TRUNCATED, "get_truncated"),
        (Fault.FLIPPED, "get_flipped"),
        (Fault.THROTTLED, "throttling_begins"),
        (Fault.DENIED, "denial_begins"),
    ),
    "list": (
        (Fault.ERROR, "list_error"),
        (Fault.MISSED_RECENT, "list_missed_recent"),
        (Fault.LOST_PAGE, "list_lost_page"),
        (Fault.THROTTLED, "throttling_begins"),
        (Fault.DENIED, "denial_begins"),
    ),
    "delete": (
        (Fault.ERROR, "delete_error"),
        (Fault.LOST_ANSWER, "delete_lost_answer"),
        (Fault.THROTTLED, "throttling_begins"),
        (Fault.DENIED, "denial_begins"),
    ),
}
