import math

import numpy as np
import pytest

from sigma_lab.bench.experiments.theory import (
    eigenvalues,
    signal_to_noise,
    theorem1_bound,
    weyl_excess,
    weyl_excess_relation,
)
from sigma_mem.memory import Settings, SigmaState


def aligned(c, gamma, eta, rank=3):
    """λ_max(M_p) and φ*ᵀM_pφ* of one memory per column of c, all events along one direction."""
    direction = np.random.default_rng(1).standard_normal(rank)
    direction /= np.linalg.norm(direction)
    settings = Settings(gamma=gamma, eta=eta, agreement=False, regression=False)
    state = SigmaState([str(p) for p in range(c.shape[1])], rank, settings)
    for row in c:
        state.write(direction, row, state.begin_event())
    return eigenvalues(state.M)[:, 0], state.read(direction).score


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


@pytest.mark.parametrize(("mu", "gamma", "horizon"), [(0.8, 0.9, 30), (0.4, 0.98, 300), (-0.5, 0.95, 100)])
def test_theorem_1_holds_in_simulation(mu, gamma, horizon):
    """λ_max(M_p) ≥ bound in at least 1 − δ of 400 memories, and the noise is not just assumed away."""
    delta, eta = 0.1, 1.0 - gamma
    rng = np.random.default_rng(int(100 * gamma))
    c = np.where(rng.random((horizon, 400)) < (1.0 + mu) / 2.0, 1.0, -1.0)
    largest, score = aligned(c, gamma, eta)
    assert (largest >= theorem1_bound(mu, gamma, eta, horizon, delta)).mean() >= 1.0 - delta
    signal = theorem1_bound(mu, gamma, eta, horizon, 2.0)  # δ = 2: log 1 = 0, no noise term
    assert score.mean() == pytest.approx(signal, abs=4.0 * score.std() / math.sqrt(400))
    assert 0.2 < (score >= signal).mean() < 0.8


@pytest.mark.parametrize("gamma", [0.8, 0.95])
def test_the_stationary_ratio_of_signal_to_noise(gamma):
    """mean/std of the score, in units of the noise's own std, is μ√((1 + γ)/(1 − γ))."""
    mu, spread = 0.3, 0.5
    c = mu + spread * np.random.default_rng(5).choice([-1.0, 1.0], size=(150, 4000))
    _, score = aligned(c, gamma, eta=0.1, rank=1)
    assert score.mean() / (score.std() / spread) == pytest.approx(signal_to_noise(mu, gamma), rel=0.06)
