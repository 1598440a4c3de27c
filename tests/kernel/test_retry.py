"""Backoff: grows, is capped, is spread, and never breaks."""

from __future__ import annotations

from math import isfinite

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.retry import RetryPolicy

LUCK = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (50, 60), (10_000, 60)]
)
def test_the_default_doubles_from_a_second_to_a_minute(failures: int, seconds: float) -> None:
    policy = RetryPolicy()
    assert policy.delay_seconds(failures, luck=0.5) == seconds
    assert policy.delay_seconds(failures, luck=0.0) == 0.75 * seconds


def test_no_jitter_means_no_luck() -> None:
    policy = RetryPolicy(jitter=0)
    assert policy.delay_seconds(3, luck=0.0) == policy.delay_seconds(3, luck=0.99) == 4


@given(
    initial=st.floats(0, 1e6),
    multiplier=st.floats(1, 1e300),
    more=st.floats(0, 1e6),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 10_000),
    luck=LUCK,
)
def test_every_policy_gives_a_wait_within_its_bounds(
    initial: float, multiplier: float, more: float, jitter: float, failures: int, luck: float
) -> None:
    policy = RetryPolicy(initial, multiplier, initial + more, jitter)
    wait = policy.delay_seconds(failures, luck)
    assert isfinite(wait)
    assert 0 <= wait <= policy.max_seconds * (1 + jitter)


@given(failures=st.integers(1, 200), luck=LUCK)
def test_waits_never_shrink_as_failures_grow(failures: int, luck: float) -> None:
    policy = RetryPolicy()
    assert policy.delay_seconds(failures, luck) <= policy.delay_seconds(failures + 1, luck)


def test_a_policy_survives_the_wire_with_only_what_differs_from_the_default() -> None:
    policy = RetryPolicy(multiplier=3)
    assert msgspec.json.encode(policy) == b'{"multiplier":3.0}'
    assert msgspec.json.decode(msgspec.json.encode(policy), type=RetryPolicy) == policy
