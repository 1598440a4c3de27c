"""What can be set for a whole queue. It is part of the log, so every process agrees on it."""

from __future__ import annotations

from typing import Final, Protocol, TypedDict

from msgspec import Struct
from msgspec.structs import force_setattr

from penstock.errors import InvalidJob
from penstock.kernel.job import DEFAULT_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS
from penstock.kernel.plain import ATTEMPTS_MAX, WHOLE_MAX, is_a, plain_seconds, plain_whole
from penstock.kernel.retry import DEFAULT_RETRY, RetryPolicy

HOUR_SECONDS: Final = 3_600.0
DAY_SECONDS: Final = 24 * HOUR_SECONDS
WEEK_SECONDS: Final = 7 * DAY_SECONDS

RETENTION_SECONDS_MIN: Final = HOUR_SECONDS
"""Nobody deletes from the log what is younger, whatever is set."""


class Settings(Struct, frozen=True, omit_defaults=True):
    result_ttl_seconds: float = HOUR_SECONDS
    """How long completed jobs stay in the live state; 0 drops them at once."""
    dead_letter_ttl_seconds: float = 30 * DAY_SECONDS
    """How long failed and cancelled jobs stay, unless archived."""
    archive_ttl_seconds: float = 7 * DAY_SECONDS
    """How long archived jobs can be unarchived."""
    finished_jobs_max: int = 1_000_000
    """Completed jobs beyond this many leave early, oldest first."""
    results_bytes_max: int = 64 * 1024 * 1024
    """Results beyond this are not kept in memory but read back from the log."""
    clock_skew_seconds: float = 2.0
    """How far clocks may differ; a lease is dead this long after it ran out."""
    log_retention_seconds: float | None = None
    """How long the log is kept below a checkpoint; None: as the backend does, most for a week."""
    default_max_attempts: int = DEFAULT_ATTEMPTS
    """Of jobs that do not say how often they may be tried."""
    default_timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """Of jobs that do not say how long one attempt may take."""
    default_retry: RetryPolicy = DEFAULT_RETRY
    """Of jobs that do not say how their retries are spaced."""

    def __post_init__(self) -> None:
        if not is_a(self.default_retry, RetryPolicy):
            raise InvalidJob("default_retry", self.default_retry, "a penstock.RetryPolicy")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "default_retry" or (name == "log_retention_seconds" and value is None):
                continue
            # Stored as it will be read, so that all have the same bytes.
            if name.endswith("_seconds"):
                force_setattr(self, name, plain_seconds(name, value))
            else:
                rule = "it must be a whole number, 0 or more"
                most = ATTEMPTS_MAX if name == "default_max_attempts" else WHOLE_MAX
                force_setattr(self, name, plain_whole(name, value, 0, most, rule))
        for name in ("default_max_attempts", "default_timeout_seconds"):
            if getattr(self, name) == 0:
                raise InvalidJob(name, 0, "it must be more than 0")
        if self.retention_seconds() < RETENTION_SECONDS_MIN:
            raise InvalidJob("log_retention_seconds", self.log_retention_seconds, "at least 3600")

    def retention_seconds(self, unset: float = WEEK_SECONDS) -> float:
        """How long the log is kept; `unset` is what the backend does where nobody has said."""
        return unset if self.log_retention_seconds is None else self.log_retention_seconds


class SettingsChanges(TypedDict, total=False):
    """The same as keywords, each of which may be left out; for type checkers."""

    result_ttl_seconds: float
    dead_letter_ttl_seconds: float
    archive_ttl_seconds: float
    finished_jobs_max: int
    results_bytes_max: int
    clock_skew_seconds: float
    log_retention_seconds: float | None
    default_max_attempts: int
    default_timeout_seconds: float
    default_retry: RetryPolicy


DEFAULT_SETTINGS: Final = Settings()


class Spoken(Protocol):
    """What a new job may leave to the queue."""

    @property
    def max_attempts(self) -> int | None: ...
    @property
    def retry(self) -> RetryPolicy | None: ...
    @property
    def timeout_seconds(self) -> float | None: ...


def with_defaults(new: Spoken, settings: Settings) -> tuple[int, RetryPolicy, float]:
    """Attempts, retries and time limit: what the job says, else what its queue says."""
    attempts, retry, seconds = new.max_attempts, new.retry, new.timeout_seconds
    return (
        settings.default_max_attempts if attempts is None else attempts,
        settings.default_retry if retry is None else retry,
        settings.default_timeout_seconds if seconds is None else seconds,
    )
