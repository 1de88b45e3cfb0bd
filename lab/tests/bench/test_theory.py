"""Theorem 1 and the bounds on eigenvalues, as formulas, in simulation and on a stream."""

import math

import numpy as np
import pytest

from sigma_lab.bench.experiments.theory import (
    eigenvalues,
    signal_to_noise,
    simulate_bound,
    theorem1_bound,
    weyl_excess,
    weyl_excess_relation,
    weyl_on_stream,
)
from sigma_lab.bench.league import DEFAULT


def test_eigenvalues_come_largest_first_and_for_stacks():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    wanted = np.array([3.0, 1.0, -0.5, -2.0])
    matrix = basis @ np.diag(wanted[[2, 0, 3, 1]]) @ basis.T
    np.testing.assert_allclose(eigenvalues(np.stack([matrix, 2 * matrix])), [wanted, 2 * wanted], atol=1e-12)


def test_weyl_excess_is_the_largest_move_beyond_eta():
    before, after = np.diag([2.0, 1.0]), np.diag([1.5, 0.5])
    assert weyl_excess(before, after, gamma=0.5, eta=0.1) == pytest.approx(0.5 - 0.1)
    assert weyl_excess(before, 0.5 * before, gamma=0.5, eta=0.1) == pytest.approx(-0.1)


def test_weyl_excess_of_G_is_negative_where_eigenvalues_move_less_than_the_update():
    before = np.array([[1.0, 0.2, 0.0], [0.2, 1.0, 0.0], [0.0, 0.0, 1.0]])
    after = np.array([[1.0, 0.1, 0.3], [0.1, 1.0, 0.0], [0.3, 0.0, 1.0]])
    update = after - np.eye(3) - 0.5 * (before - np.eye(3))
    moved = np.abs(np.linalg.eigvalsh(after - np.eye(3)) - 0.5 * np.linalg.eigvalsh(before - np.eye(3)))
    expected = moved.max() - np.linalg.norm(update, 2)
    assert weyl_excess_relation(before, after, 0.5) == pytest.approx(expected)


@pytest.mark.parametrize(("gamma", "horizon"), [(0.9, 10), (0.9, 400), (0.98, 200)])
def test_theorem_1_is_the_signal_less_hoeffdings_noise(gamma, horizon):
    mu, eta, delta = 0.4, 0.05, 0.1
    signal = sum(eta * gamma**k * mu for k in range(horizon))
    ranges = sum(
        (4.0 * eta * gamma**k) ** 2 for k in range(5000)
    )  # of all horizons: the noise is uniform in T
    hoeffding = math.sqrt(ranges * math.log(2.0 / delta) / 2.0)
    assert theorem1_bound(mu, gamma, eta, horizon, delta) == pytest.approx(signal - hoeffding, rel=1e-9)


def test_theorem_one_holds_in_simulation_and_its_ratio_is_right():
    for mu, gamma in ((0.2, 0.9), (0.6, 0.98)):
        check = simulate_bound(mu, gamma, 800, 0.05, 800, seed=1)
        assert check.violations <= 0.05
        assert check.bound < check.lowest
        assert check.snr_simulated == pytest.approx(signal_to_noise(mu, gamma), rel=0.12)
    # Without the noise term the bound is the mean itself: about half of the memories lie below it.
    signal = 0.6 * (1 - 0.98**800)
    assert check.lowest < signal
    assert check.mean == pytest.approx(signal, rel=0.02)


def test_weyl_holds_on_the_stream(small):
    stream, phis = small
    weyl = weyl_on_stream(stream.select(limit=80), phis[:80], DEFAULT)
    assert weyl.holds
    assert weyl.worst_excess > -0.5 * 0.0005  # the bound is nearly reached: it is not vacuous
