"""The scan for changes: against a naive likelihood ratio, and what must not move it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_mem.encode.base import unit
from sigma_mem.events import FloatArray
from sigma_mem.memory import drift
from sigma_mem.memory.drift import SURE, find_changes

N = 240


def labels_of(rates: FloatArray, seed: int = 0) -> FloatArray:
    """Labels drawn with these rates, (T, P)."""
    return np.where(np.random.default_rng(seed).random(rates.shape) < rates, 1.0, -1.0)


def directions(n: int = N, seed: int = 0) -> FloatArray:
    phi = np.abs(np.random.default_rng(seed).normal(size=(n, 4)))
    phi[:, 0] = 1.0
    return unit(phi)


def naive_confidence(phis: FloatArray, c: FloatArray) -> tuple[int, float]:
    """One peer alone: the Bayes factor of every step from two Gaussian densities, written out."""
    n = len(c)
    e = (c - c.mean()) / max(float(c.std()), drift._NOISE)
    base = np.eye(n) + drift._LEVEL + drift._TOPIC * np.square(phis @ phis.T)
    factors = {}
    for place in range(drift._LEAST, n - drift._LEAST + 1):
        h = (np.arange(n) >= place).astype(float)
        weight = h @ np.linalg.solve(base, h)
        z = h @ np.linalg.solve(base, e) / math.sqrt(weight)
        changed = 1.0 + weight * drift._SHIFT**2  # variance of z with a change
        factors[place] = math.exp(0.5 * z * z * (1.0 - 1.0 / changed)) / math.sqrt(changed)
    odds = sum(factors.values()) / drift.EXPECTED
    return max(factors, key=lambda place: factors[place]), odds / (1.0 + odds)


@settings(max_examples=15, deadline=None)
@given(st.integers(20, 60), st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.integers(0, 99))
def test_one_peer_alone_is_a_bayes_factor(n: int, before: float, after: float, seed: int) -> None:
    phis = directions(n, seed)
    c = labels_of(np.where(np.arange(n) < n // 2, before, after)[:, None], seed)
    (found,) = find_changes(phis, c)
    place, confidence = naive_confidence(phis, c[:, 0])
    assert found is not None
    assert found.confidence == pytest.approx(confidence, rel=1e-6)
    assert found.place == place


@pytest.mark.parametrize("n_peers", [1, 2, 3, 8])
def test_who_changed_is_named_and_nobody_else(n_peers: int) -> None:
    rates = np.full((N, n_peers), 0.7)
    rates[150:, 0] = 0.25
    found = find_changes(directions(), labels_of(rates))
    named = [i for i, change in enumerate(found) if change is not None and change.confidence >= SURE]
    assert named == [0]
    assert found[0] is not None
    assert abs(found[0].place - 150) <= 15


def test_hard_tasks_are_no_change() -> None:
    rates = np.full((N, 8), 0.8)
    rates[120:] = 0.4  # for everybody
    found = find_changes(directions(), labels_of(rates))
    assert all(change is not None and change.confidence < SURE for change in found)


def test_a_topic_that_phi_shows_is_no_change() -> None:
    """A peer is good at one topic and bad at another; they come in two blocks, twice."""
    topic = np.arange(N) // 60 % 2
    phis = np.full((N, 3), 0.5)
    phis[np.arange(N), 1 + topic] = 2.0
    c = labels_of(np.where(topic == 0, 0.85, 0.3)[:, None])
    (found,) = find_changes(unit(phis), c)
    (blind,) = find_changes(np.ones((N, 1)), c)
    assert found is not None
    assert blind is not None
    assert found.confidence < 0.5 < blind.confidence


def test_too_few_labels_say_nothing() -> None:
    c = np.full((40, 2), np.nan)
    c[:, 0] = 1.0
    c[:10, 1] = 1.0
    first, second = find_changes(directions(40), c)
    assert first is not None
    assert first.confidence < 0.1
    assert second is None
    assert find_changes(np.zeros((0, 3)), np.zeros((0, 2))) == [None, None]


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(4)), st.integers(0, 99), st.floats(0.0, 0.6))
def test_permuted_peers_have_permuted_changes(order: list[int], seed: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    rates = np.tile(rng.random(4), (60, 1))
    rates[30:, 1] = 1.0 - rates[30:, 1]
    c = np.where(rng.random((60, 4)) < missing, np.nan, labels_of(rates, seed))
    found, moved = find_changes(directions(60), c), find_changes(directions(60), c[:, order])
    for i, peer in enumerate(order):
        before, after = found[peer], moved[i]
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert after.confidence == pytest.approx(before.confidence, rel=1e-6)


def test_events_without_a_label_of_a_peer_play_no_part_for_it() -> None:
    """Alone in the pool, what a peer's labels say does not depend on events between them."""
    rates = np.where(np.arange(80) < 40, 0.9, 0.2)[:, None]
    c, phis = labels_of(rates), directions(80)
    sparse, many = np.full((160, 1), np.nan), directions(160, 1)
    sparse[::2], many[::2] = c, phis
    (dense,), (spread,) = find_changes(phis, c), find_changes(many, sparse)
    assert dense is not None
    assert spread is not None
    assert spread.confidence == pytest.approx(dense.confidence)
    assert spread.place == 2 * dense.place
