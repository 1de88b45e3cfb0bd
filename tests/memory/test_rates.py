"""Rates: means that do not age, a chain of horizons, and which claim is believed of whom."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState, Sums
from sigma_mem.memory.rates import (
    bounded,
    claim_rows,
    claim_weights,
    effective_events,
    effective_labels,
    fast_horizon,
    label_rows,
    log_likelihood,
    probability,
    rate_sums,
    read_rates,
    shrunk_mean,
    wilson,
)

from . import naive
from .strategies import labels, shares

PHI = np.array([1.0, 0.0])
seeds = st.integers(0, 2**32 - 1)


# --- means and intervals -----------------------------------------------------------------


@given(
    right=st.integers(0, 50),
    wrong=st.integers(0, 50),
    prior=st.floats(-0.98, 0.98),
    strength=st.floats(0.1, 20),
)
def test_p_is_the_mean_of_a_beta_that_counted_right_and_wrong(right, wrong, prior, strength):
    score, effective = np.array([float(right - wrong)]), np.array([float(right + wrong)])
    a, b = right + strength * (1.0 + prior) / 2.0, wrong + strength * (1.0 - prior) / 2.0
    p = probability(shrunk_mean(score, effective, np.array([prior]), strength))
    assert p[0] == pytest.approx(a / (a + b))


def test_what_goes_in_is_left_alone():
    score, effective, prior = np.array([1.0, -2.0]), np.array([3.0, 4.0]), np.array([0.5, 0.6])
    bounded(probability(shrunk_mean(score, effective, prior, 4.0)))
    assert score.tolist() == [1.0, -2.0]
    assert effective.tolist() == [3.0, 4.0]
    assert prior.tolist() == [0.5, 0.6]


@given(p=st.floats(0, 1), n=st.floats(0.1, 1e5), z=st.floats(0.5, 4))
def test_the_interval_solves_wilsons_equation(p, n, z):
    """Its ends are the rates from which p lies z standard errors away."""
    for end in wilson(np.array([p]), np.array([n]), z):
        q = float(end[0])
        assert 0.0 <= q <= 1.0
        if 1e-9 < q < 1.0 - 1e-9:
            assert abs(p - q) == pytest.approx(z * math.sqrt(q * (1.0 - q) / n), rel=1e-6, abs=1e-9)


def test_the_interval_holds_p_and_narrows():
    low, high = wilson(np.array([0.9, 0.9]), np.array([10.0, 1000.0]), 1.96)
    assert (low < 0.9).all()
    assert (high > 0.9).all()
    assert high[1] - low[1] < 0.2 * (high[0] - low[0])


@given(c=st.floats(-1.0, 1.0), claim=st.floats(-0.97, 0.97))
def test_the_likelihood_of_a_label_is_highest_by_the_claim_that_is_true(c, claim):
    r, p = (1.0 + c) / 2.0, (1.0 + claim) / 2.0
    found = log_likelihood(np.array([[claim]]), np.array([c]))[0, 0]
    assert found == pytest.approx(r * math.log(p) + (1.0 - r) * math.log(1.0 - p))
    assert found <= log_likelihood(np.array([[max(-0.999999, min(c, 0.999999))]]), np.array([c]))[0, 0] + 1e-5


def test_no_label_or_no_claim_has_no_likelihood():
    claims, c = np.array([[0.5, np.nan], [0.5, 0.5]]), np.array([1.0, np.nan])
    assert log_likelihood(claims, c).tolist() == [[math.log(0.75), 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(("n_horizons", "fast"), [(1, 0), (2, 0), (3, 0), (4, 1), (6, 3)])
def test_the_fast_horizon_is_the_third_slowest(n_horizons, fast):
    assert fast_horizon(n_horizons) == fast


# --- labels ------------------------------------------------------------------------------


HORIZONS = tuple(math.exp(-rate) for rate in (0.2, 0.02, 0.0005))
SETTINGS = Settings(horizons=HORIZONS, strength=10.0)


def drawn(seed, missing=0.3, n_events=40, n_peers=3):
    rng = np.random.default_rng(seed)
    c, weight = labels(rng, (n_events, n_peers), missing, 0.3), rng.uniform(0.1, 1.0, (n_events, n_peers))
    return rng, c, weight, np.cumsum(rng.exponential(2.0, n_events))


def write(sums, c, weight, ticks, order=None, sign=1.0):
    """Labels of events, NaN where there is none, in this order."""
    rates, seen = len(sums["labels"]) // 3, sign * np.where(np.isnan(c), 0.0, weight)
    for t in range(len(c)) if order is None else order:
        w = sums.weights(np.array([ticks[t]], dtype=float), seen[t])
        sums.add("labels", label_rows((seen * np.nan_to_num(c))[t, None], seen[t, None], rates), w)
        sums.add("events", np.array([[sign * seen[t].any()]], dtype=float), w)


def written(c, weight, ticks, order=None, settings=SETTINGS):
    sums = Sums(c.shape[1], rate_sums(settings))
    write(sums, c, weight, ticks, order)
    return sums


def read(sums, settings=SETTINGS, moved=None):
    none, found = np.zeros(sums.n_peers), effective_labels(sums)
    return read_rates(found, claim_weights(sums, found), none if moved is None else moved, settings)


@given(seed=seeds, missing=shares)
def test_effective_sums_are_those_of_the_definition_in_any_order(seed, missing):
    rng, c, weight, ticks = drawn(seed, missing)
    found = effective_labels(written(c, weight, ticks, rng.permutation(len(c))))
    for g, rate in enumerate((*SETTINGS.horizon_rates, 0.0)):
        expected = naive.by_peer(naive.History(np.zeros((len(c), 1)), c, ticks, weight), rate)
        np.testing.assert_allclose(found.labels[g], expected.sum(axis=1), rtol=1e-9)
        total = (expected * np.nan_to_num(c).T).sum(axis=1)
        np.testing.assert_allclose(found.mean[g] * found.labels[g], total, atol=1e-9)


def test_no_pause_is_too_long():
    """Nothing happens to what is known of a peer until something is seen of it."""
    c = np.full((60, 2), np.nan)
    c[:, 0] = np.where(np.arange(60) < 40, 1.0, -1.0)
    sums = written(c, np.ones(c.shape), np.arange(60.0))
    before = effective_labels(sums)
    others = np.array([[np.nan, 1.0]])
    for tick in range(60, 100_060, 100):
        write(sums, others, np.ones((1, 2)), [tick])
    after = effective_labels(sums)
    np.testing.assert_allclose(after.mean[:, 0], before.mean[:, 0], rtol=1e-9)
    np.testing.assert_allclose(after.labels[:, 0], before.labels[:, 0], rtol=1e-9)


@given(seed=seeds)
def test_all_taken_back_is_nothing(seed):
    rng, c, weight, ticks = drawn(seed)
    sums = written(c, weight, ticks)
    write(sums, c, weight, ticks, rng.permutation(len(c)), sign=-1.0)
    np.testing.assert_allclose(effective_labels(sums).labels, 0.0, atol=1e-6)
    assert effective_events(sums)[0] == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(read(sums, replace(SETTINGS, prior=0.6)).rates, 0.2, atol=1e-6)


@pytest.mark.parametrize(("gamma", "later"), [(0.95, 100), (0.99, 400), (0.9995, 20_000)])
def test_labels_taken_back_long_after_others_were_never_given(gamma, later):
    """What is left weighs far less than what was taken back."""
    settings = Settings(gamma=gamma)
    c = np.where(np.arange(60) < 40, 1.0, -1.0)[:, None]
    sums, never = (written(c, np.ones(c.shape), np.arange(60.0), settings=settings) for _ in range(2))
    for sign in (1.0, -1.0):
        write(sums, np.ones((20, 1)), np.ones((20, 1)), later + np.arange(20.0), sign=sign)
    for found, expected in zip(effective_labels(sums), effective_labels(never), strict=True):
        np.testing.assert_allclose(found[:, 0] * (expected[:, 0] != 0.0), found[:, 0])
    np.testing.assert_allclose(read(sums, settings).rates, read(never, settings).rates, rtol=1e-5)


# --- rates -------------------------------------------------------------------------------


def chained(history, moved, settings):
    """The same by the definition, with a prior that each peer's agreement has moved."""
    pool, out = naive.level(history, settings), np.empty((len(settings.horizon_rates), history.c.shape[1]))
    for p, c in enumerate(history.label.T):
        life = history.weight[:, p]
        rate = (life @ c + settings.strength * (pool + moved[p])) / (life.sum() + settings.strength)
        slower = naive.mean_of(life, c)
        for g in range(len(out) - 1, -1, -1):
            weights = naive.fresh_weights(life, history.ticks, settings.horizon_rates[g])
            mean = naive.mean_of(weights, c)
            rate += (mean - slower) * weights.sum() / (weights.sum() + settings.strength)
            out[g, p], slower = rate, mean
    return out


@given(seed=seeds, missing=shares, prior=st.sampled_from([0.5, 0.2]), worth=st.sampled_from([2.0, 8.0]))
def test_rates_chain_from_the_whole_life_to_the_fastest_horizon(seed, missing, prior, worth):
    rng, c, weight, ticks = drawn(seed, missing)
    settings = replace(SETTINGS, strength=4.0, prior=prior, prior_labels=worth)
    moved = rng.uniform(-0.3, 0.3, c.shape[1])
    found = read(written(c, weight, ticks, rng.permutation(len(c)), settings), settings, moved)
    history = naive.History(np.zeros((len(c), 1)), c, ticks, weight)
    expected = np.clip(chained(history, moved, settings), -0.97, 0.97)
    np.testing.assert_allclose(found.rates, expected, atol=1e-9)
    np.testing.assert_array_equal(found.slowest, found.rates[-1])
    np.testing.assert_array_equal(found.away, found.rates - found.rates[-1])


def test_nothing_known_is_the_prior_at_every_horizon():
    sums = Sums(2, rate_sums(SETTINGS))
    np.testing.assert_allclose(read(sums, replace(SETTINGS, prior=0.7)).rates, 0.4)
    np.testing.assert_allclose(read(sums, moved=np.array([0.1, -0.1])).rates, [[0.1, -0.1]] * 3)
    assert effective_events(sums) == (0.0, 0.0)


def test_one_label_counts_once_whatever_the_number_of_horizons():
    one, several = Settings(gamma=HORIZONS[-1]), SETTINGS
    alone, many = (read(written(np.ones((1, 1)), np.ones((1, 1)), [5.0], None, s), s) for s in (one, several))
    np.testing.assert_allclose(many.rates[:, 0], alone.rates[0, 0], rtol=1e-12)


def test_a_fast_horizon_without_recent_labels_says_what_the_slower_one_says():
    """A few labels that are as old as all others: the last of them are all that a fast horizon has."""
    rates = read(written(np.ones((400, 1)), np.ones((400, 1)), np.arange(400.0))).rates[:, 0]
    np.testing.assert_allclose(rates, rates[-1], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_level_of_the_pool_is_a_mean_over_peers_and_not_over_labels(seed):
    """A peer that is asked ten times as often counts hardly more."""
    rng = np.random.default_rng(seed)
    c = np.full((2000, 2), np.nan)
    c[:, 0] = 1.0
    c[rng.permutation(2000)[:200], 1] = -1.0
    settings = Settings(gamma=1.0)
    sums = written(c, np.ones(c.shape), np.arange(2000.0), settings=settings)
    sums = sums.take([0, 1, -1])  # of whom nothing is known is taken to be as the others
    assert abs(read(sums, settings).rates[0, 2]) < 0.05


# --- claims ------------------------------------------------------------------------------


def score(sums, likelier, of, n_labels=200, sign=1.0):
    """Show claims of which one is right; `of` these peers only are labelled."""
    claims = np.zeros((1, sums.n_peers, len(sums["claims"]) - 2), dtype=np.float16)
    if likelier is not None:
        claims[..., likelier] = 0.9
    weight = np.zeros((1, sums.n_peers))
    weight[0, list(of)] = sign
    for tick in range(n_labels):
        w = sums.weights(np.array([float(tick)]), weight[0])
        sums.add("claims", claim_rows(claims, np.ones(weight.shape), weight), w)
        sums.add("labels", label_rows(weight, weight, len(sums["labels"]) // 3), w)


def scored(likelier, n_peers=2, n_labels=200, settings=SETTINGS, of=(0,)):
    sums = Sums(n_peers, rate_sums(settings))
    score(sums, likelier, of, n_labels)
    return sums


@pytest.mark.parametrize("claim", range(7))
def test_the_claim_that_predicts_better_has_the_weight(claim):
    found = read(scored(claim))
    if claim < 3:
        assert found.estimators[0, claim] > 0.99
    else:
        assert found.horizons[0, claim - 3] > 0.99
    np.testing.assert_allclose(found.horizons.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found.of_local, found.horizons[:, -1])


@pytest.mark.parametrize("claim", range(4))
def test_without_a_regression_claims_are_of_horizons(claim):
    settings = replace(SETTINGS, regression=False)
    found = read(scored(claim, settings=settings), settings)
    assert found.estimators.tolist() == [[1.0, 0.0, 0.0]] * 2
    assert found.horizons[0, claim] > 0.99


def test_with_one_horizon_claims_are_of_estimators():
    settings = Settings(gamma=0.99)
    found = read(scored(1, n_peers=1, settings=settings), settings)
    assert found.estimators[0, 1] > 0.99
    assert found.horizons.tolist() == [[1.0, 0.0]]


def test_before_any_claim_the_slower_horizons_weigh_more_and_the_local_claim_nothing():
    found = read(Sums(1, rate_sums(SETTINGS)))
    assert (np.diff(found.horizons[0, :-1]) > 0.0).all()
    assert found.of_local[0] == 0.0
    kernel, regression, sharpened = found.estimators[0]
    assert kernel > 0.5 > regression > sharpened == 0.0  # the kernel mean has the benefit of the doubt


def test_a_regression_that_hardly_predicts_better_is_left_out_however_many_labels_there_are():
    sums = Sums(1, rate_sums(SETTINGS))
    sums["claims"][:3, 0] = -600.0, -595.0, -595.0  # of a thousand labels
    for tick in range(1000):
        w = sums.weights(np.array([float(tick)]), np.ones(1))
        sums.add("labels", label_rows(np.ones((1, 1)), np.ones((1, 1)), len(sums["labels"]) // 3), w)
    sums["claims"][:3] /= effective_labels(sums).fresh[-2]
    assert read(sums).estimators[0, 0] > 0.99


def test_the_local_claim_counts_once_it_is_clearly_better():
    assert read(scored(6, n_labels=2)).of_local[0] == 0.0
    assert read(scored(6, n_labels=20)).of_local[0] > 0.3


def test_weights_are_a_peers_own_as_far_as_its_record_tells():
    """One peer of which the fast horizon is right, one of which the slow one is, and one without a label."""
    sums = scored(3, n_peers=3, of=(0,))
    score(sums, 5, of=(1,))
    fast, slow, _ = read(sums).horizons
    assert fast[0] > 0.9
    assert slow[2] > 0.9


def test_what_claims_were_worth_can_be_taken_back():
    sums = scored(3, n_labels=50)
    score(sums, 3, of=(0,), n_labels=50, sign=-1.0)
    empty = read(Sums(2, rate_sums(SETTINGS))).horizons
    np.testing.assert_allclose(read(sums).horizons, empty, atol=1e-6)


def test_a_newcomer_changes_no_weight_of_the_others():
    sums = scored(3, n_peers=2, n_labels=3, of=(0, 1))
    np.testing.assert_allclose(read(sums.take([0, 1, -1])).horizons[:2], read(sums).horizons)


# --- what it is for ----------------------------------------------------------------------


def play(state, rates, n_events, rng, *, share=1.0):
    """Peers that are right at these rates, whatever the task; a share of the events is labelled."""
    for _ in range(n_events):
        reading, tick = state.read(PHI), state.begin_event()
        c = np.where(rng.random(len(rates)) < rates, 1.0, -1.0)
        if rng.random() < share:
            state.write(PHI, c, tick, claims=reading.claims)


def test_a_change_moves_the_weight_to_a_faster_horizon_and_p_with_it():
    rng = np.random.default_rng(0)
    several, one = (SigmaState(["a", "b"], 2, settings) for settings in (Settings(), Settings(gamma=0.9995)))
    for state in (several, one):
        play(state, [0.9, 0.2], 800, rng)
    assert (several.horizon_weights()[:, -2] > 0.4).all()
    for state in (several, one):
        play(state, [0.2, 0.9], 60, rng)
    assert (several.horizon_weights()[:, :2].sum(axis=1) > 0.8).all()
    assert several.read(PHI).prob[0] < 0.5 < one.read(PHI).prob[0]


def test_a_change_of_one_peer_is_not_taken_for_one_of_another():
    rng = np.random.default_rng(1)
    state = SigmaState(["steady", "changed"], 2)
    play(state, [1.0, 0.9], 400, rng)
    play(state, [1.0, 0.1], 60, rng)
    prob = state.read(PHI).prob
    assert prob[0] > 0.95
    assert prob[1] < 0.4


def test_a_change_at_one_kind_of_task_is_seen_there_and_nowhere_else():
    """One peer goes bad at one of four kinds; its overall rate hardly moves."""
    rng, kinds = np.random.default_rng(0), np.eye(4)
    several, one = SigmaState(["a", "b"], 4), SigmaState(["a", "b"], 4, Settings(gamma=0.9995))
    for t in range(800 + 80):
        kind = rng.integers(4)
        rates = [0.1 if kind == 0 and t >= 800 else 0.9, 0.6]
        c = np.where(rng.random(2) < rates, 1.0, -1.0)
        for state in (several, one):
            claims = state.read(kinds[kind]).claims
            state.write(kinds[kind], c, state.begin_event(), claims=claims)
    assert several.horizon_weights()[0, -1] > 0.5
    assert several.read(kinds[0]).prob.argmax() == 1 != one.read(kinds[0]).prob.argmax()
    for kind in kinds[1:]:
        assert several.read(kind).prob.argmax() == 0


@pytest.mark.parametrize("n_peers", [3, 5, 7, 9])
def test_peers_with_equal_records_are_tied_to_the_last_bit(n_peers):
    rng = np.random.default_rng(n_peers)
    state = SigmaState([f"p{i}" for i in range(n_peers)], 17)
    for _ in range(150):
        phi = rng.normal(size=17)
        phi /= np.linalg.norm(phi)
        reading = state.read(phi)
        for values in (reading.score, reading.effective, reading.prob, reading.observations):
            assert len(set(values.tolist())) == 1
        c = np.full(n_peers, 1.0 if rng.random() < 0.7 else -1.0)
        tick = state.begin_event()
        state.write_agreement(phi, np.full(n_peers, 1.0), tick)
        state.write(phi, c, tick, claims=reading.claims)
