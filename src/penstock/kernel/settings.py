"""What can be set for a whole queue. It is part of the log, so every process agrees on it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from penstock.errors import InvalidJob
from penstock.kernel.retry import require_number

HOUR_SECONDS: Final = 3_600.0
DAY_SECONDS: Final = 24 * HOUR_SECONDS

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
    log_retention_seconds: float = 7 * DAY_SECONDS
    """How long the log is kept below a checkpoint."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = require_number(name, getattr(self, name))
            if value < 0:
                raise InvalidJob(name, value, "it must be 0 or more")
            if name.endswith("_seconds"):
                # Stored as it will be read, so that all have the same bytes.
                force_setattr(self, name, float(value))
            elif not isinstance(value, int):
                raise InvalidJob(name, value, "it must be a whole number")
        if self.log_retention_seconds < RETENTION_SECONDS_MIN:
            raise InvalidJob("log_retention_seconds", self.log_retention_seconds, "at least 3600")


DEFAULT_SETTINGS: Final = Settings()
