"""Unsupervised aggregation: against a naive reference, and on peers whose skill is known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sigma_lab.bench.aggregation import AGGREGATIONS, aggregated, dawid_skene, glad
from sigma_mem.events import FloatArray

SKILL = np.array([0.85, 0.8, 0.75, 0.4, 0.35])


def answers_of(n: int = 400, seed: int = 0) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Group 0 is right; wrong answers spread over four; one answer in twenty cannot be read."""
    rng = np.random.default_rng(seed)
    right = rng.random((n, len(SKILL))) < SKILL
    groups = np.where(right, 0, rng.integers(1, 5, size=right.shape))
    return np.where(rng.random(right.shape) < 0.05, -1, groups), right


def naive(groups: NDArray[np.intp], rounds: int) -> FloatArray:
    """One coin, answer by answer: the probability of each class at each event, in plain loops."""
    n, n_peers = groups.shape
    prob = np.zeros((n, n_peers))
    for t in range(n):
        votes = [g for g in groups[t] if g >= 0]
        for g in votes:
            prob[t, g] += 1 / len(votes)
    for _ in range(rounds):
        skill = []
        for p in range(n_peers):
            given = [prob[t, groups[t, p]] for t in range(n) if groups[t, p] >= 0]
            skill.append(sum(given) / len(given))
        for t in range(n):
            for g in range(n_peers):
                likely = 1.0
                for p in range(n_peers):
                    if groups[t, p] >= 0:
                        likely *= skill[p] if groups[t, p] == g else (1 - skill[p]) / (n_peers - 1)
                prob[t, g] = likely
            prob[t] /= prob[t].sum()
    return prob


def test_dawid_skene_equals_plain_loops() -> None:
    groups, _ = answers_of(60)
    expected = naive(groups, rounds=7)
    found = dawid_skene(groups, rounds=7).prob
    for t, p in np.argwhere(groups >= 0):
        assert found[t, p] == pytest.approx(expected[t, groups[t, p]])


@pytest.mark.parametrize("fit", AGGREGATIONS.values(), ids=AGGREGATIONS)
def test_skills_are_found_without_a_label(fit: object) -> None:
    groups, right = answers_of()
    prob, skill = fit(groups)  # type: ignore[operator]
    assert np.argsort(-skill)[:3].tolist() == [0, 1, 2]
    assert set(np.argsort(-skill)[3:].tolist()) == {3, 4}
    readable = groups >= 0
    assert prob[right & readable].mean() > 0.8 > 0.3 > prob[~right & readable].mean()
    assert not prob[~readable].any()


def test_glad_finds_easy_and_hard_events_apart() -> None:
    rng = np.random.default_rng(1)
    groups = np.vstack((np.zeros((50, 5), dtype=np.intp), rng.integers(0, 5, size=(50, 5))))
    prob = glad(groups).prob
    assert prob[:50].min() > 0.95 > prob[50:].max(axis=1).mean()


def test_the_chosen_peer_gave_the_likeliest_answer_and_nobody_is_chosen_among_the_unreadable() -> None:
    groups, _ = answers_of(80)
    groups[5] = -1
    for name, chosen in aggregated(groups).items():
        prob = AGGREGATIONS[name](groups).prob
        there = np.arange(len(groups)) != 5
        assert chosen[5] == -1
        assert np.array_equal(prob[there, chosen[there]], prob[there].max(axis=1))


def test_the_order_of_peers_and_the_numbers_of_answers_play_no_part() -> None:
    groups, _ = answers_of(100)
    order = np.array([3, 0, 4, 1, 2])
    for fit in AGGREGATIONS.values():
        assert fit(groups[:, order]).prob == pytest.approx(fit(groups).prob[:, order])
        assert fit(np.where(groups >= 0, 4 - groups, -1)).prob == pytest.approx(fit(groups).prob)
