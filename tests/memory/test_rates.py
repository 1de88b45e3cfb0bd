"""Rates: means that do not age, a chain of horizons, and which claim is believed of whom."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_mem.memory import DecayedSum, Settings, SigmaState
from sigma_mem.memory.rates import (
    Counts,
    Rates,
    bounded,
    fast_horizon,
    log_likelihood,
    probability,
    rounded,
    shrunk_mean,
    wilson,
)

from . import naive
from .strategies import labels, shares

PHI = np.array([1.0, 0.0])
seeds = st.integers(0, 2**32 - 1)
decay_rates = st.sampled_from([0.0, 5e-4, 0.05, 0.7])


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


def test_claims_are_rounded_column_by_column():
    found = rounded(np.array([0.1, 0.2]), np.array([[0.3, 0.4], [0.5, 0.6]]))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, [[0.1, 0.3, 0.4], [0.2, 0.5, 0.6]], atol=1e-3)


@pytest.mark.parametrize(("n_horizons", "fast"), [(1, 0), (2, 0), (3, 0), (4, 1), (6, 3)])
def test_the_fast_horizon_is_the_third_slowest(n_horizons, fast):
    assert fast_horizon(n_horizons) == fast


# --- counts ------------------------------------------------------------------------------


def counted(rate, c, weight, ticks, order=None):
    """Counts of labels c, (T, P), NaN where there is none, written in this order."""
    counts = Counts(1, [rate], c.shape[1])
    weight = np.where(np.isnan(c), 0.0, weight)
    for t in range(len(c)) if order is None else order:
        counts.add((weight * np.nan_to_num(c))[t, None], weight[t], ticks[t])
    return counts


def fresh_sums(counts):
    """Σ w·c and Σ w of every peer, (2, P), as so many labels as they are worth."""
    return np.concatenate((counts.values[0] * counts.fresh(), counts.effective()))


def drawn(seed, missing=0.3, n_events=40, n_peers=3):
    rng = np.random.default_rng(seed)
    c, weight = labels(rng, (n_events, n_peers), missing, 0.3), rng.uniform(0.1, 1.0, (n_events, n_peers))
    return rng, c, weight, np.cumsum(rng.exponential(2.0, n_events))


@given(seed=seeds, rate=decay_rates, missing=shares)
def test_fresh_sums_are_those_of_the_definition_in_any_order(seed, rate, missing):
    rng, c, weight, ticks = drawn(seed, missing)
    counts = counted(rate, c, weight, ticks, rng.permutation(len(c)))
    expected = naive.by_peer(naive.History(np.zeros((len(c), 1)), c, ticks, weight), rate)
    total, n = fresh_sums(counts)
    np.testing.assert_allclose(n, expected.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(total, (expected * np.nan_to_num(c).T).sum(axis=1), atol=1e-9)


@pytest.mark.parametrize("rate", [-math.log(0.95), -math.log(0.99), -math.log(0.9995)])
def test_no_pause_is_too_long(rate):
    """Nothing happens to the sums of a peer until something is seen of it."""
    counts = Counts(1, [rate], 2)
    for tick in range(60):
        counts.add(np.array([[1.0 if tick < 40 else -1.0, 0.0]]), np.array([1.0, 0.0]), tick)
    before = fresh_sums(counts)[:, 0]
    for tick in range(60, 100_060, 100):
        counts.add(np.array([[0.0, 1.0]]), np.array([0.0, 1.0]), tick)
    np.testing.assert_array_equal(fresh_sums(counts)[:, 0], before)


@given(seed=seeds, rate=decay_rates)
def test_sums_of_another_object_are_made_fresh_by_the_same_factor(seed, rate):
    """M and N at the same rate are kept relative to an anchor of their own."""
    _, c, weight, ticks = drawn(seed, missing=0.0)
    counts, theirs = counted(rate, c, weight, ticks), DecayedSum(rate, {"sum": np.zeros(c.shape[1])})
    for t in range(len(c)):
        theirs.advance(ticks[t])
        theirs.add("sum", weight[t] * c[t], ticks[t])
    theirs.advance(ticks[-1] + 200.0)
    ours = fresh_sums(counts)[0]
    np.testing.assert_allclose(theirs.arrays["sum"] * counts.factor(theirs), ours, rtol=1e-9, atol=1e-9)


def test_nothing_written_is_nothing_fresh():
    counts = Counts(1, [0.1], 2)
    assert counts.fresh().tolist() == [[0.0, 0.0]]
    counts.add(np.ones((1, 2)), np.array([1.0, 0.0]), 3.0)
    assert counts.effective().tolist() == [[pytest.approx(1.0), 0.0]]


@given(seed=seeds, rate=decay_rates)
def test_all_taken_back_is_nothing(seed, rate):
    rng, c, weight, ticks = drawn(seed)
    counts = counted(rate, c, weight, ticks)
    weight = np.where(np.isnan(c), 0.0, weight)
    for t in rng.permutation(len(c)):
        counts.add(-(weight * np.nan_to_num(c))[t, None], -weight[t], ticks[t])
    np.testing.assert_allclose(fresh_sums(counts), 0.0, atol=1e-6)


@pytest.mark.parametrize(("gamma", "later"), [(0.95, 100), (0.99, 400), (0.9995, 20_000)])
def test_labels_taken_back_long_after_others_were_never_given(gamma, later):
    """What is left weighs far less than what was taken back."""
    counts, never = (Counts(1, [-math.log(gamma)], 1) for _ in range(2))
    for tick in range(60):
        for each in (counts, never):
            each.add(np.array([[1.0 if tick < 40 else -1.0]]), np.ones(1), tick)
    for sign in (1.0, -1.0):
        for tick in range(later, later + 20):
            counts.add(np.array([[sign]]), np.array([sign]), tick)
    np.testing.assert_allclose(fresh_sums(counts), fresh_sums(never), rtol=1e-5)


@given(seed=seeds, rate=decay_rates)
def test_counts_of_two_halves_merge_into_those_of_the_whole(seed, rate):
    rng, c, weight, ticks = drawn(seed)
    mine = rng.random(len(c)) < 0.5
    one, two = (counted(rate, c[part], weight[part], ticks[part]) for part in (mine, ~mine))
    one.merge(two)
    whole = counted(rate, c, weight, ticks)
    np.testing.assert_allclose(fresh_sums(one), fresh_sums(whole), atol=1e-9)


@given(seed=seeds, rate=decay_rates)
def test_counts_follow_their_peers_and_keep_a_share(seed, rate):
    _, c, weight, ticks = drawn(seed)
    counts = counted(rate, c, weight, ticks)
    was = fresh_sums(counts)
    moved = counts.take([2, -1, 0])
    np.testing.assert_array_equal(fresh_sums(moved), was[:, [2, 1, 0]] * [1.0, 0.0, 1.0])
    counts.scale(np.array([1.0, 0.5, 0.0]))
    np.testing.assert_allclose(fresh_sums(counts), was * [1.0, 0.5, 0.0], rtol=1e-12, atol=1e-300)


# --- rates -------------------------------------------------------------------------------

HORIZONS = (0.2, 0.02, 0.0005)


def written(c, weight, ticks, order=None, rates=HORIZONS):
    memory = Rates(c.shape[1], rates, 0, 0.01)
    seen = np.where(np.isnan(c), 0.0, weight)
    for t in range(len(c)) if order is None else order:
        if seen[t].any():
            memory.write((seen * np.nan_to_num(c))[t], seen[t], ticks[t])
    return memory


def chained(memory_like, moved, settings):
    """The same by the definition, with a prior that each peer's agreement has moved."""
    history, pool = memory_like, naive.level(memory_like, settings)
    out = np.empty((len(settings.horizon_rates), history.c.shape[1]))
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
    gammas = tuple(math.exp(-rate) for rate in HORIZONS)
    settings = Settings(horizons=gammas, strength=4.0, prior=prior, prior_labels=worth, agreement=False)
    memory = written(c, weight, ticks, rng.permutation(len(c)), settings.horizon_rates)
    moved = rng.uniform(-0.3, 0.3, c.shape[1])
    found = memory.read(moved, 4.0, 2.0 * prior - 1.0, worth)
    history = naive.History(np.zeros((len(c), 1)), c, ticks, weight)
    expected = np.clip(chained(history, moved, settings), -0.97, 0.97)
    np.testing.assert_allclose(found.rates, expected, atol=1e-9)
    np.testing.assert_array_equal(found.slowest, found.rates[-1])
    np.testing.assert_allclose(found.recent, found.rates[0] - found.rates[-1])  # 0 is the fast one of three


def test_nothing_known_is_the_prior_at_every_horizon():
    memory = Rates(2, HORIZONS, 0, 0.01)
    assert memory.read(np.zeros(2), 10.0, prior=0.4).rates.tolist() == [[0.4, 0.4]] * 3
    np.testing.assert_allclose(memory.read(np.array([0.1, -0.1]), 10.0).rates, [[0.1, -0.1]] * 3)
    assert memory.labelled_events() == 0.0


def test_one_label_counts_once_whatever_the_number_of_horizons():
    one, many = (written(np.ones((1, 1)), np.ones((1, 1)), [5.0], rates=r) for r in (HORIZONS[-1:], HORIZONS))
    expected = one.read(np.zeros(1), 10.0).rates[0, 0]
    np.testing.assert_allclose(many.read(np.zeros(1), 10.0).rates[:, 0], expected, rtol=1e-12)


def test_a_fast_horizon_without_recent_labels_says_what_the_slower_one_says():
    """A few labels that are as old as all others: the last of them are all that a fast horizon has."""
    memory = written(np.ones((400, 1)), np.ones((400, 1)), np.arange(400.0))
    rates = memory.read(np.zeros(1), 10.0).rates[:, 0]
    np.testing.assert_allclose(rates, rates[-1], atol=1e-12)


def test_everything_taken_back_is_the_prior_again():
    _, c, weight, ticks = drawn(3)
    memory, seen = written(c, weight, ticks), np.where(np.isnan(c), 0.0, weight)
    for t in np.random.default_rng(0).permutation(len(c)):
        if seen[t].any():
            memory.write(-(seen * np.nan_to_num(c))[t], -seen[t], ticks[t], event=-1.0)
    np.testing.assert_allclose(memory.read(np.zeros(3), 10.0, prior=0.2).rates, 0.2, atol=1e-6)
    assert memory.labelled_events() == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=settings().max_examples // 4)
@given(seed=seeds)
def test_the_level_of_the_pool_is_a_mean_over_peers_and_not_over_labels(seed):
    """A peer that is asked ten times as often counts hardly more."""
    rng = np.random.default_rng(seed)
    c = np.full((2000, 2), np.nan)
    c[:, 0] = 1.0
    c[rng.permutation(2000)[:200], 1] = -1.0
    memory = written(c, np.ones(c.shape), np.arange(2000.0), rates=(0.0,))
    memory = memory.take([0, 1, -1])  # of whom nothing is known is taken to be as the others
    assert abs(memory.read(np.zeros(3), 10.0).rates[0, 2]) < 0.05


@given(seed=seeds)
def test_rates_follow_their_peers_keep_a_share_and_merge(seed):
    rng, c, weight, ticks = drawn(seed)
    mine = rng.random(len(c)) < 0.5
    one, two = (written(c[part], weight[part], ticks[part]) for part in (mine, ~mine))
    whole = written(c, weight, ticks)
    one.merge(two, ticks[-1])
    none = np.zeros(3)
    np.testing.assert_allclose(one.read(none, 4.0).rates, whole.read(none, 4.0).rates, atol=1e-9)
    assert one.labelled_events() == pytest.approx(whole.labelled_events())
    moved = whole.take([2, 0, 1])
    np.testing.assert_allclose(
        moved.read(none, 4.0).rates, whole.read(none, 4.0).rates[:, [2, 0, 1]], atol=1e-12
    )
    whole.scale(np.zeros(3))
    np.testing.assert_allclose(whole.read(none, 4.0, prior=0.3).rates, 0.3, atol=1e-12)


# --- claims ------------------------------------------------------------------------------


def scored(likelier, n_peers=2, n_labels=200, regression=True, of=(0,)):
    """Rates that were shown claims of which one is right; `of` these peers only are labelled."""
    n_claims = len(HORIZONS) + 1 + 2 * regression
    memory = Rates(n_peers, HORIZONS, n_claims, 0.01)
    claims = np.zeros((n_peers, n_claims), dtype=np.float16)
    claims[:, likelier] = 0.9
    weight = np.zeros(n_peers)
    weight[list(of)] = 1.0
    for tick in range(n_labels):
        memory.score(claims, np.ones(n_peers), weight, tick)
    return memory


@pytest.mark.parametrize("claim", range(6))
def test_the_claim_that_predicts_better_has_the_weight(claim):
    found = scored(claim).read(np.zeros(2), 10.0)
    if claim < 2:
        assert found.of_regression[0] == pytest.approx(claim, abs=1e-3)
    else:
        assert found.horizons[0, claim - 2] > 0.99
    np.testing.assert_allclose(found.horizons.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found.of_local, found.horizons[:, -1])


@pytest.mark.parametrize("claim", range(4))
def test_without_a_regression_claims_are_of_horizons(claim):
    found = scored(claim, regression=False).read(np.zeros(2), 10.0)
    assert found.of_regression.tolist() == [0.0, 0.0]
    assert found.horizons[0, claim] > 0.99


def test_with_one_horizon_claims_are_of_estimators():
    memory = Rates(1, (0.01,), 2, 0.01)
    for tick in range(200):
        memory.score(np.array([[0.0, 0.9]], dtype=np.float16), np.ones(1), np.ones(1), tick)
    found = memory.read(np.zeros(1), 10.0)
    assert found.of_regression[0] > 0.99
    assert found.horizons.tolist() == [[1.0, 0.0]]


def test_before_any_claim_the_slower_horizons_weigh_more_and_the_local_claim_nothing():
    found = Rates(1, HORIZONS, 6, 0.01).read(np.zeros(1), 10.0)
    assert (np.diff(found.horizons[0, :-1]) > 0.0).all()
    assert found.of_local[0] == 0.0
    assert 0.0 < found.of_regression[0] < 0.2


def test_the_local_claim_counts_once_it_is_clearly_better():
    assert scored(5, n_labels=2).read(np.zeros(2), 10.0).of_local[0] == 0.0
    assert scored(5, n_labels=20).read(np.zeros(2), 10.0).of_local[0] > 0.3


def test_weights_are_a_peers_own_as_far_as_its_record_tells():
    """One peer of which the fast horizon is right, one of which the slow one is, and one without a label."""
    memory = scored(2, n_peers=3, of=(0,))
    claims = np.zeros((3, 6), dtype=np.float16)
    claims[:, 4] = 0.9
    for tick in range(200):
        memory.score(claims, np.ones(3), np.array([0.0, 1.0, 0.0]), tick)
    fast, slow, _ = memory.read(np.zeros(3), 10.0).horizons
    assert fast[0] > 0.9
    assert slow[2] > 0.9


def test_what_claims_were_worth_does_not_age_and_can_be_taken_back():
    memory = scored(2, n_labels=50)
    before = memory.read(np.zeros(2), 10.0).horizons
    memory.score(np.zeros((2, 6), dtype=np.float16), np.ones(2), np.array([0.0, 1.0]), 4_000.0)
    memory.score(np.zeros((2, 6), dtype=np.float16), np.ones(2), np.array([0.0, -1.0]), 4_000.0)
    np.testing.assert_allclose(memory.read(np.zeros(2), 10.0).horizons, before, atol=1e-9)
    claims = np.zeros((2, 6), dtype=np.float16)
    claims[:, 2] = 0.9
    for tick in range(50):
        memory.score(claims, np.ones(2), np.array([-1.0, 0.0]), tick)
    empty = Rates(2, HORIZONS, 6, 0.01).read(np.zeros(2), 10.0).horizons
    np.testing.assert_allclose(memory.read(np.zeros(2), 10.0).horizons, empty, atol=1e-6)


def test_a_newcomer_changes_no_weight_of_the_others():
    memory = scored(2, n_peers=2, n_labels=3, of=(0, 1))
    before = memory.read(np.zeros(2), 10.0).horizons
    np.testing.assert_allclose(memory.take([0, 1, -1]).read(np.zeros(3), 10.0).horizons[:2], before)


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
