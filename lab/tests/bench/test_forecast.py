"""Figures of a forecast against definitions written out naively, and the claims that must hold anywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_lab.bench.forecast import BINS, Forecast

PAIRS = st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=1, max_size=40)


def forecast_of(pairs: list[tuple[int, bool]]) -> Forecast:
    return Forecast(np.array([c / 100 for c, _ in pairs]), np.array([float(right) for _, right in pairs]))


@given(PAIRS)
@settings(max_examples=60)
def test_figures_equal_their_definitions(pairs: list[tuple[int, bool]]) -> None:
    forecast = forecast_of(pairs)
    claims = [(c / 100, float(right)) for c, right in pairs]
    error = 0.0
    for b in range(BINS):
        inside = [(c, y) for c, y in claims if min(int(c * BINS), BINS - 1) == b]
        error += abs(sum(c - y for c, y in inside)) / len(claims)
    assert forecast.calibration_error == pytest.approx(error)
    assert forecast.brier == pytest.approx(sum((c - y) ** 2 for c, y in claims) / len(claims))
    won = [(a > b) + 0.5 * (a == b) for a, ya in claims if ya for b, yb in claims if not yb]
    assert forecast.auc == pytest.approx(sum(won) / len(won) if won else 0.5)


@given(PAIRS, st.sampled_from([0.5, 0.9, 1.0]))
@settings(max_examples=60)
def test_the_best_threshold_is_the_best_of_all(pairs: list[tuple[int, bool]], target: float) -> None:
    forecast = forecast_of(pairs)
    best = 0.0
    for threshold in set(forecast.confidence):
        answered = forecast.confidence >= threshold
        if forecast.right[answered].sum() >= target * answered.sum():
            best = max(best, float(answered.mean()))
    assert forecast.best_coverage(target) == best


def test_a_perfect_forecaster_is_within_the_limit_and_an_overconfident_one_is_not() -> None:
    rng = np.random.default_rng(1)
    confidence = rng.random(2000)
    limit = Forecast(confidence, np.zeros(2000)).perfect_error(seed=3)
    errors = [
        Forecast(confidence, 1.0 * (rng.random(2000) < confidence)).calibration_error for _ in range(60)
    ]
    assert 0.85 <= np.mean(np.array(errors) <= limit) <= 1.0
    sure = Forecast(confidence, 1.0 * (rng.random(2000) < 0.8 * confidence))
    assert sure.calibration_error > limit + 0.01
    assert sure.perfect_error(seed=3) == sure.perfect_error(seed=3) == limit
