import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.errors import InputError
from sigma_mem.memory import Settings, SigmaState

from . import naive
from .strategies import decays, play, probe, streams


@given(stream=streams())
def test_the_memory_is_that_of_the_papers_equations(stream):
    state, _ = play(stream)
    settings = stream.settings
    M, N = naive.competence(stream.phis, stream.c, settings.gamma, settings.step)
    np.testing.assert_allclose(state.M, M, atol=1e-10)
    np.testing.assert_allclose(state.N, N, atol=1e-10)
    np.testing.assert_allclose(
        state.G, naive.relation(stream.c, settings.gamma_g, settings.eta_g), atol=1e-10
    )
    np.testing.assert_allclose(
        state.readable, naive.readable(stream.c, stream.groups, settings.gamma), atol=1e-10
    )
    for phi in probe(state.rank):
        reading = state.read(phi)
        np.testing.assert_allclose(reading.score, [phi @ m @ phi for m in M], atol=1e-10)
        np.testing.assert_allclose(state.readout(phi), [m @ phi for m in M], atol=1e-10)
        np.testing.assert_allclose(reading.effective, [phi @ n @ phi / settings.step for n in N], atol=1e-10)
        history = stream.phis, stream.c, stream.groups
        expected = naive.alternatives(*history, settings.gamma, phi)
        assert state.alternatives(phi) == pytest.approx(expected, rel=1e-9)


def assert_read_as_defined(stream, state, ticks):
    """p̂, and what it is made of, is what plain sums over the labels say."""
    history = stream.history(ticks)
    for phi in probe(state.rank):
        reading, expected = state.read(phi), naive.read(history, stream.settings, phi)
        np.testing.assert_allclose(reading.prob, expected.prob, atol=1e-9)
        np.testing.assert_allclose(reading.near, expected.near, atol=1e-9)
        np.testing.assert_allclose(reading.labels, expected.labels, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(reading.slowest, expected.rates[-1], atol=1e-9)
        if reading.claims is None:
            assert stream.settings.n_claims == 0
        else:
            np.testing.assert_allclose(reading.claims, expected.claims, atol=1e-3)  # as a ledger keeps them
    np.testing.assert_allclose(state.overall()[0], expected.overall, atol=1e-9)
    weights = naive.claim_weights(history, stream.settings)[1]
    np.testing.assert_allclose(state.horizon_weights(), weights, atol=1e-8)


@given(stream=streams(decay=decays(), weighted=True))
def test_p_is_that_of_its_definition(stream):
    """With partial and weighted labels, one or several horizons, agreement, regression, or neither."""
    assert_read_as_defined(stream, *play(stream))


@given(stream=streams(weighted=True), seed=st.integers(0, 2**32 - 1))
def test_p_is_that_of_its_definition_whenever_labels_come(stream, seed):
    state = stream.state()
    ticks = [state.begin_labels(stream.decide(state, t)) for t in range(len(stream))]
    for t in np.random.default_rng(seed).permutation(len(stream)):
        state.write(stream.phis[t], stream.c[t], ticks[t], **stream.recorded(t))
    assert_read_as_defined(stream, state, ticks)


@given(stream=streams(weighted=True))
def test_one_horizon_without_agreement_and_regression_is_a_kernel_mean(stream):
    """(φᵀMφ + s·rate)/(φᵀNφ + s) at the peer's last label, its rate that of its life shrunk to the pool's."""
    stream = stream.plain()
    state, ticks = play(stream)
    s, history = stream.settings, stream.history(ticks)
    weights, strength = naive.by_peer(history, s.rate), s.local_strength(len(stream.peers))
    for phi in probe(state.rank):
        reading, near = state.read(phi), (stream.phis @ phi) ** 2
        assert reading.claims is None
        for p, c in enumerate(history.label.T):
            rate = naive.rates(history, s)[0, p]
            total, labels = (weights[p] * near) @ c, weights[p] @ near
            expected = 0.5 + 0.5 * (total + strength * rate) / (labels + strength)
            assert reading.prob[p] == pytest.approx(np.clip(expected, 0.015, 0.985), abs=1e-9)


@given(stream=streams(decay=decays()))
def test_probabilities_and_sample_sizes_stay_in_their_range(stream):
    state, _ = play(stream)
    for phi in probe(state.rank):
        reading = state.read(phi)
        assert (reading.effective >= 0.0).all()
        assert (reading.prob > 0.0).all()
        assert (reading.prob < 1.0).all()
        assert (np.abs(reading.score) <= state.settings.step * reading.effective + 1e-9).all()
        low, high = reading.interval()
        assert (low >= 0.0).all()
        assert (high <= 1.0).all()
        assert (low < high).all()
        assert state.alternatives(phi) >= 1.0
    assert (state.readable > 0.0).all()
    assert (state.readable <= 1.0).all()


def test_an_event_has_weight_one_right_after_it_and_gamma_after_the_next():
    state = SigmaState(["a"], 1, Settings(gamma=0.5, eta=1.0))
    one = np.array([1.0])
    state.write(one, one, state.begin_event())
    assert state.M.item() == 1.0
    state.begin_event()  # unlabelled: only decays
    assert state.M.item() == 0.5
    assert state.clock == 2


def test_decay_by_labelled_event_stands_still_while_nobody_labels():
    state = SigmaState(["a"], 1, Settings(gamma=0.5, eta=1.0, decay="labelled"))
    one = np.array([1.0])
    state.write(one, one, state.begin_labels(state.begin_event()))
    for _ in range(5):
        state.begin_event()
    assert state.M.item() == 1.0
    state.write(one, one, state.begin_labels(state.begin_event()))
    assert state.M.item() == 1.5
    assert state.clock == 7


def test_decay_by_time_halves_in_a_half_life():
    state = SigmaState(["a"], 1, Settings(eta=1.0, decay="time", half_life=60.0))
    one = np.array([1.0])
    state.write(one, one, state.begin_event(1.7e9))
    state.begin_event(1.7e9 + 60.0)
    assert state.M.item() == pytest.approx(0.5)
    state.write(one, one, state.begin_event(1.7e9 + 30.0))  # the clock ran backwards
    assert state.M.item() == pytest.approx(0.5 + 0.5**0.5)
    assert state.now == 1.7e9 + 60.0


@given(stream=streams(decay=decays()))
def test_sums_are_weighted_by_the_age_on_the_decay_axis(stream):
    state, ticks = play(stream)
    settings = stream.settings
    ages = state.now - np.array(ticks)
    gamma = math.exp(-settings.rate)
    M, N = naive.competence_at(stream.phis, stream.c, ages, gamma, settings.step)
    np.testing.assert_allclose(state.M, M, atol=1e-7)
    np.testing.assert_allclose(state.N, N, atol=1e-7)


@given(stream=streams())
def test_overall_is_the_rate_whatever_the_direction(stream):
    stream = stream.plain()
    state, ticks = play(stream)
    gamma, labels = stream.settings.gamma, np.zeros(stream.c.shape[1])
    for row in stream.c:
        labels = gamma * labels + ~np.isnan(row)
    rate, n = state.overall()
    np.testing.assert_allclose(n, labels, atol=1e-10)
    expected = naive.rates(stream.history(ticks), stream.settings)[0]
    np.testing.assert_allclose(rate, 0.5 + 0.5 * expected, atol=1e-9)


def test_a_pool_nobody_knows_is_read_at_the_prior():
    state = SigmaState(["a", "b"], 3, Settings(prior=0.3))
    reading = state.read(np.array([0.0, 1.0, 0.0]))
    assert reading.prob.tolist() == pytest.approx([0.3, 0.3])
    assert not reading.score.any()
    assert not reading.effective.any()


def test_a_peer_nobody_knows_is_read_at_the_level_of_the_pool():
    state = SigmaState(["known", "new"], 2, Settings(gamma=1.0, agreement=False))
    for _ in range(18):
        state.write(np.array([1.0, 0.0]), np.array([1.0, math.nan]), state.begin_event())
    known = 18 / (18 + state.settings.strength)  # and half a peer that is right half of the time
    expected = 0.5 + 0.5 * known / (known + 0.5)
    assert state.read(np.array([0.0, 1.0])).prob[1] == pytest.approx(expected)


def test_away_from_what_it_has_seen_a_peer_is_read_at_its_overall_rate():
    settings = Settings(gamma=1.0, strength=4.0, agreement=False, regression=False)
    state = SigmaState(["a"], 2, settings)
    for _ in range(16):
        state.write(np.array([1.0, 0.0]), np.array([1.0]), state.begin_event())
    elsewhere = state.read(np.array([0.0, 1.0]))
    assert elsewhere.effective[0] == 0.0
    assert elsewhere.prob[0] == pytest.approx(state.overall()[0][0])
    level = 0.8 / (0.8 + 0.5)  # the peer is known to 16/20, beside half a peer of which nothing is
    assert elsewhere.prob[0] == pytest.approx(0.5 + 0.5 * (16 + 4 * level) / (16 + 4))


def test_following_another_memory_ages_alike():
    settings = Settings(gamma=0.5, eta=1.0)
    lead, follower = SigmaState(["a"], 1, settings), SigmaState(["x"], 1, settings)
    one = np.array([1.0])
    tick = lead.begin_event()
    follower.sync_clock(lead)
    follower.write(one, one, tick)
    for _ in range(3):
        lead.begin_event()
    follower.sync_clock(lead)
    assert (follower.clock, follower.now) == (lead.clock, lead.now)
    assert follower.M.item() == 0.125


@pytest.mark.parametrize(
    ("peers", "rank", "named"),
    [
        ([], 3, "no peers"),
        (["a", "a"], 3, "distinct"),
        (["a", ""], 3, "non-empty"),
        (["a"], 0, "rank is 0"),
    ],
)
def test_impossible_pools_are_refused(peers, rank, named):
    with pytest.raises(InputError, match=named):
        SigmaState(peers, rank)


def test_peers_are_added_and_removed_by_name():
    state = SigmaState(["a", "b"], 2)
    state.add_peer("c")
    assert state.peers == ("a", "b", "c")
    state.remove_peer("a")
    assert state.peers == ("b", "c")
    for call, name in ((state.add_peer, "b"), (state.remove_peer, "a")):
        with pytest.raises(InputError, match=name):
            call(name)
    state.remove_peer("b")
    with pytest.raises(InputError, match="last"):
        state.remove_peer("c")
    assert state.peers == ("c",)


def test_only_memories_of_one_kind_can_be_merged():
    state = SigmaState(["a"], 2)
    for other in (SigmaState(["a"], 3), SigmaState(["a"], 2, Settings(gamma=0.9))):
        with pytest.raises(InputError, match="cannot merge"):
            state.merge(other)


def test_a_reading_cannot_change_what_is_read_next():
    state = SigmaState(["a", "b"], 2)
    phi = np.array([1.0, 0.0])
    state.write(phi, np.array([1.0, -1.0]), state.begin_event())
    reading = state.read(phi)
    before = state.read(phi).prob.copy()
    with pytest.raises(ValueError, match="read-only"):
        reading.slowest[:] = 0.0
    for name in ("score", "effective", "prob", "labels", "near", "claims"):
        getattr(reading, name)[:] = 0.0
    assert state.read(phi).prob.tobytes() == before.tobytes()
    assert before[0] > 0.5 > before[1]
