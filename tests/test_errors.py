"""Errors as they travel: from a process of the pool, or from one of Spark's tasks."""

from __future__ import annotations

import copy
import pickle

import pytest

from penstock.errors import (
    ClockSkew,
    Gap,
    OutcomeUnknown,
    PenstockError,
    QueueClosed,
    StoredLate,
    Unsupported,
)


@pytest.mark.parametrize(
    "error",
    [
        QueueClosed(),
        Gap(4_000_001, 7),
        StoredLate("acme", "job-7", 4_000_001),
        Unsupported("bulk imports", "sqlite"),
        OutcomeUnknown("enqueue", "this call", ("a", "b")),
        ClockSkew(12.5, 1.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_in_another_process_as_it_was_raised(error: PenstockError) -> None:
    for arrived in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(arrived) is type(error)
        assert str(arrived) == str(error)
        assert vars(arrived) == vars(error)
