"""What a handler may raise: right or refused where it is made, and whole on its way."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import pytest

import penstock
from penstock.app.control import HandlerSignal
from penstock.errors import InvalidInput

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"until": 1.0, "seconds": 1.0},
        {"seconds": -1},
        {"seconds": float("nan")},
        {"until": NOON.replace(tzinfo=None)},
    ],
)
def test_a_snooze_without_a_sensible_time_is_refused_where_it_is_raised(
    arguments: dict[str, Any],
) -> None:
    with pytest.raises(InvalidInput):
        penstock.Snooze(**arguments)


@pytest.mark.parametrize("after", [-1, float("inf"), "soon", None])
def test_a_retry_without_a_sensible_delay_is_refused_where_it_is_raised(after: Any) -> None:
    with pytest.raises(InvalidInput):
        penstock.Retry(after=after)


@pytest.mark.parametrize(
    "signal",
    [
        penstock.Retry("later", after=5),
        penstock.Snooze(seconds=3),
        penstock.Snooze(until=NOON),
        penstock.Permanent("never"),
    ],
    ids=["retry", "snooze", "snooze-until", "permanent"],
)
def test_a_signal_comes_back_whole_from_another_process(signal: HandlerSignal) -> None:
    restored = pickle.loads(pickle.dumps(signal))
    assert type(restored) is type(signal)
    assert restored.args == signal.args
    assert vars(restored) == vars(signal)
