"""Every decision, and what was learned, as when the corpus was recorded."""

import pytest

from .record import recorded
from .scenarios import SCENARIOS

TOLERANCE = 1e-6  # sums in another order round otherwise, and claims are recorded as float16


def assert_close(now, then, where):
    """The same texts and whole numbers, and nearly the same fractions."""
    if isinstance(then, dict):
        assert now.keys() == then.keys(), where
        for key in then:
            assert_close(now[key], then[key], f"{where}.{key}")
    elif isinstance(then, list):
        assert len(now) == len(then), where
        for place, (a, b) in enumerate(zip(now, then, strict=True)):
            assert_close(a, b, f"{where}[{place}]")
    elif isinstance(then, float):
        assert now == pytest.approx(then, abs=TOLERANCE, rel=TOLERANCE), where
    else:
        assert now == then, where


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_decision_is_as_recorded(name):
    assert_close(SCENARIOS[name](), recorded()[name], name)
