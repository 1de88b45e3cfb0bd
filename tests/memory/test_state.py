import math

import numpy as np
import pytest
from hypothesis import given

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
        near, overall, local = naive.claims(stream.phis, stream.c, stream.groups, settings, phi)
        np.testing.assert_allclose(reading.near, near, atol=1e-9)
        np.testing.assert_allclose(reading.overall, overall, atol=1e-9)
        several = len(settings.horizons) > 1
        np.testing.assert_allclose(reading.local, local if several else near, atol=1e-9)
        expected = naive.mixed(near, overall, local, stream.claims, stream.c)
        np.testing.assert_allclose(reading.prob, expected, atol=1e-9)
        history = stream.phis, stream.c, stream.groups
        expected = naive.alternatives(*history, settings.gamma, phi, settings.revision)
        assert state.alternatives(phi) == pytest.approx(expected, rel=1e-9)


@given(stream=streams())
def test_one_horizon_without_agreement_is_the_estimate_of_version_0_1(stream):
    stream = stream.plain()
    state, _ = play(stream)
    s = stream.settings
    M, N = naive.competence(stream.phis, stream.c, s.gamma, s.step)
    for phi in probe(state.rank):
        expected = naive.calibrated(M, N, phi, s.step, s.prior, s.strength)
        np.testing.assert_allclose(state.read(phi).prob, expected, atol=1e-10)


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
    state, _ = play(stream)
    gamma = stream.settings.gamma
    right, labels = np.zeros(stream.c.shape[1]), np.zeros(stream.c.shape[1])
    for row in stream.c:
        seen = ~np.isnan(row)
        right = gamma * right + np.where(seen, (row + 1.0) / 2.0, 0.0)
        labels = gamma * labels + seen
    s = stream.settings.strength
    pool = (right.sum() + 2.0 * stream.settings.prior) / (labels.sum() + 2.0)
    rate, n = state.overall()
    np.testing.assert_allclose(n, labels, atol=1e-10)
    np.testing.assert_allclose(rate, (right + s * pool) / (labels + s), atol=1e-10)


def test_a_pool_nobody_knows_is_read_at_the_prior():
    state = SigmaState(["a", "b"], 3, Settings(prior=0.3))
    reading = state.read(np.array([0.0, 1.0, 0.0]))
    assert reading.prob.tolist() == pytest.approx([0.3, 0.3])
    assert not reading.score.any()
    assert not reading.effective.any()


def test_a_peer_nobody_knows_is_read_at_the_rate_of_the_pool():
    state = SigmaState(["known", "new"], 2, Settings(gamma=1.0, agreement=False))
    for _ in range(18):
        state.write(np.array([1.0, 0.0]), np.array([1.0, math.nan]), state.begin_event())
    assert state.read(np.array([0.0, 1.0])).prob[1] == pytest.approx((18 + 1) / (18 + 2))


def test_away_from_what_it_has_seen_a_peer_is_read_at_its_overall_rate():
    state = SigmaState(["a"], 2, Settings(gamma=1.0, strength=4.0, agreement=False))
    for _ in range(16):
        state.write(np.array([1.0, 0.0]), np.array([1.0]), state.begin_event())
    elsewhere = state.read(np.array([0.0, 1.0]))
    assert elsewhere.effective[0] == 0.0
    assert elsewhere.prob[0] == pytest.approx((16 + 4 * 17 / 18) / (16 + 4))


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
    with pytest.raises(ValueError, match="read-only"):
        reading.overall[:] = 0.0
    for values in (reading.score, reading.effective, reading.prob, reading.near):
        values[:] = 0.0
    assert state.read(phi).prob[0] > 0.5 > state.read(phi).prob[1]
