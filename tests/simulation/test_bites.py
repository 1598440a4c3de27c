"""The simulation bites: an engine that breaks any of the ten rules is caught within some seeds."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock.testing.simulation import Report, run_seed
from tests.simulation.variants import VARIANTS, Variant


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_rule_is_caught_and_the_whole_engine_passes(name: str) -> None:
    variant = VARIANTS[name]
    with pytest.MonkeyPatch.context() as patch:
        variant.patch(patch)
        caught = first_caught(variant)
    assert caught is not None, f"not caught in {variant.seeds_max} seeds"
    assert not run_seed(caught.seed, variant.layout).violations


def first_caught(variant: Variant) -> Report | None:
    """Begins with the seed that caught it last, then goes through them all."""
    for seed in (variant.seed, *range(variant.seeds_max)):
        report = run_seed(seed, variant.layout)
        if report.violations:
            return report
    return None
