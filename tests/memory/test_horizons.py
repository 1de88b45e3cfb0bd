"""Horizons: what an event adds, the level of agreement, and which horizon is believed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.mixing import Mixing, mixture, with_local

from . import naive

PHI = np.array([1.0, 0.0])


@given(groups=st.lists(st.integers(-2, 3), min_size=1, max_size=7))
def test_agreement_is_the_share_of_the_other_readable_answers(groups):
    np.testing.assert_array_equal(agreement_labels(np.array(groups)), naive.agreement(groups))
    np.testing.assert_array_equal(agreement_labels(np.array([groups, groups]))[1], naive.agreement(groups))


def play(state, rates, n_events, rng, *, share=1.0, groups=None):
    """Peers that are right at these rates, whatever the task; a share of the events is labelled."""
    for _ in range(n_events):
        reading, tick = state.read(PHI), state.begin_event()
        c = np.where(rng.random(len(rates)) < rates, 1.0, -1.0)
        if groups is not None:
            state.write_agreement(PHI, agreement_labels(groups(c)), tick)
        if rng.random() < share:
            agreement = None if groups is None else agreement_labels(groups(c))
            state.write(PHI, c, tick, agreement=agreement, claims=reading.recorded())


def test_a_change_moves_the_weight_to_a_faster_horizon_and_p_with_it():
    rng = np.random.default_rng(0)
    several, one = (
        SigmaState(["a", "b"], 2, settings)
        for settings in (Settings(revision=2), Settings(revision=2, gamma=0.9995))
    )
    for state in (several, one):
        play(state, [0.9, 0.2], 800, rng)
    before = several.mixing.weights
    assert before[-2] > 0.4
    for state in (several, one):
        play(state, [0.2, 0.9], 60, rng)
    after = several.mixing.weights
    assert after[:2].sum() > 0.8
    assert several.read(PHI).prob[0] < 0.5 < one.read(PHI).prob[0]


def test_a_change_at_one_kind_of_task_is_seen_there_and_nowhere_else():
    """One peer goes bad at one of four kinds; its overall rate hardly moves."""
    rng, kinds = np.random.default_rng(0), np.eye(4)
    several, one = SigmaState(["a", "b"], 4), SigmaState(["a", "b"], 4, Settings(gamma=0.9995))
    for t in range(800 + 80):
        kind = rng.integers(4)
        rates = [0.1 if kind == 0 and t >= 800 else 0.9, 0.6]
        c = np.where(rng.random(2) < rates, 1.0, -1.0)
        for state in (several, one):
            claims = state.read(kinds[kind]).recorded()
            state.write(kinds[kind], c, state.begin_event(), claims=claims)
    assert several.mixing.weights[-1] > 0.5
    assert several.read(kinds[0]).prob.argmax() == 1 != one.read(kinds[0]).prob.argmax()
    for kind in kinds[1:]:
        assert several.read(kind).prob.argmax() == 0


def test_agreement_ranks_peers_that_nobody_has_labelled():
    """Right answers are equal, wrong ones differ: who is right more often agrees more often."""
    rng = np.random.default_rng(1)
    state = SigmaState(["good", "fair", "bad"], 2, Settings(revision=2))
    play(state, [0.9, 0.7, 0.3], 400, rng, share=0.0, groups=lambda c: np.where(c > 0, 0, [1, 2, 3]))
    assert np.all(np.diff(state.read(PHI).prob) < 0.0)


def test_labels_set_the_level_that_agreement_does_not_know():
    """Peers that always agree, and are wrong half of the time."""
    rng = np.random.default_rng(2)
    state = SigmaState(["a", "b"], 2, Settings(revision=2))
    play(state, [0.5, 0.5], 300, rng, share=0.0, groups=lambda c: np.zeros(2, dtype=int))
    assert state.read(PHI).prob.min() > 0.9
    play(state, [0.5, 0.5], 300, rng, share=0.3, groups=lambda c: np.zeros(2, dtype=int))
    assert state.read(PHI).prob == pytest.approx([0.5, 0.5], abs=0.1)


def test_a_horizon_that_claimed_better_weighs_more():
    assert mixture(np.array([0.0, -2.0, 0.0]))[0] > mixture(np.array([0.0, 0.0, 0.0]))[0]
    assert mixture(np.array([-1e6, 0.0])).tolist() == [0.0, 1.0]


def test_the_local_claim_counts_once_it_is_clearly_better():
    unsure, sure = mixture(np.zeros(5)), mixture(np.array([0.0, 0.0, 0.0, 0.0, 2.0]))
    assert unsure[-1] == 0.0
    assert sure[-1] > 0.3
    assert unsure.sum() == pytest.approx(1.0) == sure.sum()


def test_a_line_without_a_local_claim_is_scored_as_if_the_fast_horizon_had_made_it():
    rng = np.random.default_rng(0)
    recorded = rng.uniform(-0.5, 0.5, (20, 2, 5)).astype(np.float16)
    old, new = Mixing(2, 5, 0.01), Mixing(2, 5, 0.01)
    for tick, claimed in enumerate(recorded):
        c = rng.choice([-1.0, 1.0], size=2)
        for mixing, said in ((old, claimed), (new, with_local(claimed))):
            mixing.write(said, c, np.ones(2), tick, tick)
    for mixing in (old, new):
        mixing.score_waiting(20.0)
    likelihood = old.decayed.value("likelihood", 20.0)
    assert likelihood.tobytes() == new.decayed.value("likelihood", 20.0).tobytes()
    np.testing.assert_allclose(likelihood[:, -1], likelihood[:, 1], atol=0.02)  # rounded to float16 once more


@pytest.mark.parametrize("n_peers", [3, 5, 7, 9])
def test_peers_with_equal_records_are_tied_to_the_last_bit(n_peers):
    rng = np.random.default_rng(n_peers)
    state = SigmaState([f"p{i}" for i in range(n_peers)], 17)
    for _ in range(150):
        phi = rng.normal(size=17)
        phi /= np.linalg.norm(phi)
        reading = state.read(phi)
        for values in (reading.score, reading.effective, reading.prob):
            assert len(set(values.tolist())) == 1
        c = np.full(n_peers, 1.0 if rng.random() < 0.7 else -1.0)
        tick = state.begin_event()
        state.write_agreement(phi, np.full(n_peers, 1.0), tick)
        state.write(phi, c, tick, agreement=np.full(n_peers, 1.0))
