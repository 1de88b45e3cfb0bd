"""Late, corrected, revoked and partial feedback is exact: only the last version of a label counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory import naive
from memory.strategies import assert_same, decays, labels, play, streams

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=settings().max_examples // 2)


def replace_labels(stream, state, t, tick, before, after):
    """Take back the labels that event t had, if any, and write those that it has now."""
    for c, sign in ((before, -1.0), (after, 1.0)):
        if c is not None:
            state.write(stream.phis[t], c, tick, sign=sign, **stream.recorded(t))


def play_late(stream, delays):
    """Decide every event on time; write all its labels `delay` events later, or at the end."""
    state = stream.state()
    ticks, due = [], {}
    for t in range(len(stream)):
        # With decay by labelled event, an event's place is fixed by its first label.
        ticks.append(state.begin_labels(stream.decide(state, t)))
        due.setdefault(min(t + int(delays[t]), len(stream) - 1), []).append(t)
        for s in sorted(due.pop(t, []), key=lambda s: delays[s]):
            state.write(stream.phis[s], stream.c[s], ticks[s], **stream.recorded(s))
    return state


@few
@given(stream=streams(decay=decays(), weighted=True), seed=seeds, longest=st.sampled_from([1, 10, 70, 200]))
def test_late_feedback_equals_feedback_on_time(stream, seed, longest):
    delays = np.random.default_rng(seed).integers(0, longest + 1, len(stream))
    assert_same(play_late(stream, delays), play(stream)[0])


@few
@given(stream=streams(decay=decays(), weighted=True), seed=seeds)
def test_the_order_of_arrival_does_not_matter(stream, seed):
    state = stream.state()
    ticks = [state.begin_labels(stream.decide(state, t)) for t in range(len(stream))]
    for t in np.random.default_rng(seed).permutation(len(stream)):
        state.write(stream.phis[t], stream.c[t], ticks[t], **stream.recorded(t))
    assert_same(state, play(stream)[0])


@few
@given(
    stream=streams(decay=decays(), weighted=True),
    seed=seeds,
    versions=st.integers(1, 3),
    missing=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_only_the_last_version_of_every_label_counts(stream, seed, versions, missing):
    """Each event is labelled several times, at any later moment, each time in place of the version before."""
    # What a fast horizon has forgotten is not brought back when all that came later is taken back.
    assume(min(stream.settings.horizons) >= 0.9 and stream.settings.half_life is None)
    rng = np.random.default_rng(seed)
    state = stream.state()
    ticks = [state.begin_labels(stream.decide(state, t)) for t in range(len(stream))]
    for t in rng.permutation(len(stream)):
        before = None
        for _ in range(versions):
            wrong = labels(rng, stream.c.shape[1], missing, 0.3)
            replace_labels(stream, state, t, ticks[t], before, wrong)
            before = wrong
        replace_labels(stream, state, t, ticks[t], before, stream.c[t])
    assert_same(state, play(stream)[0])


@few
@given(stream=streams(decay=decays(), weighted=True), seed=seeds)
def test_revoked_feedback_was_never_given(stream, seed):
    # What a fast horizon has forgotten is not brought back when all that came later is taken back.
    assume(min(stream.settings.horizons) >= 0.9 and stream.settings.half_life is None)
    rng = np.random.default_rng(seed)
    revoked = rng.random(len(stream)) < 0.4
    with_it, without = play(stream)[0], stream.state()
    ticks = []
    for t in range(len(stream)):
        ticks.append(without.begin_labels(stream.decide(without, t)))
        if not revoked[t]:
            without.write(stream.phis[t], stream.c[t], ticks[t], **stream.recorded(t))
    for t in np.flatnonzero(revoked):
        replace_labels(stream, with_it, t, ticks[t], stream.c[t], None)
    assert_same(with_it, without)


@few
@given(stream=streams(decay=decays(), weighted=True))
def test_all_revoked_is_an_empty_memory_that_says_so(stream):
    state, ticks = play(stream)
    for t in range(len(stream)):
        replace_labels(stream, state, t, ticks[t], stream.c[t], None)
    reading = state.read(stream.phis[0])
    assert (reading.effective >= 0.0).all()
    np.testing.assert_allclose(reading.effective, 0.0, atol=1e-10)
    unlabelled = stream.state()
    for t in range(len(stream)):
        unlabelled.begin_labels(stream.decide(unlabelled, t))
    np.testing.assert_allclose(reading.prob, unlabelled.read(stream.phis[0]).prob, atol=1e-9)
    if not stream.settings.agreement:
        np.testing.assert_allclose(reading.prob, stream.settings.prior, atol=1e-9)
    np.testing.assert_allclose(state.G, np.eye(len(state.peers)), atol=1e-10)
    np.testing.assert_allclose(state.readable, 1.0, atol=1e-10)
    assert abs(state.alternatives(stream.phis[0]) - 4.0) < 1e-9


@few
@given(stream=streams(), seed=seeds)
def test_a_peer_without_a_label_has_no_evidence(stream, seed):
    """Missing is not wrong: an unlabelled peer only decays, whatever the others got."""
    silent = seed % stream.c.shape[1]
    c = stream.c.copy()
    c[:, silent] = np.nan
    state = stream.state()
    for phi, row in zip(stream.phis, c, strict=True):
        state.write(phi, row, state.begin_event())
    assert not state.M[silent].any()
    assert not state.N[silent].any()
    relations = np.delete(state.G[silent], silent)
    assert not relations.any()
    rate, n = state.overall()
    assert n[silent] == 0.0
    assert np.isclose(state.read(stream.phis[0]).prob[silent], rate[silent], atol=1e-15)


@few
@given(stream=streams(min_peers=2, complete=True), seed=seeds)
def test_labels_may_come_one_peer_at_a_time(stream, seed):
    rng = np.random.default_rng(seed)
    state = stream.state()
    for t in range(len(stream)):
        tick = stream.decide(state, t)
        so_far = None
        for p in rng.permutation(stream.c.shape[1]):
            more = np.full(stream.c.shape[1], np.nan) if so_far is None else so_far.copy()
            more[p] = stream.c[t, p]
            replace_labels(stream, state, t, tick, so_far, more)
            so_far = more
    assert_same(state, play(stream)[0])


@few
@given(stream=streams(min_peers=3, complete=True), seed=seeds)
def test_correcting_after_a_peer_has_left_is_exact_for_those_who_stay(stream, seed):
    """The labels of the one who left still centre q, and its wrong answers still compete."""
    rng = np.random.default_rng(seed)
    state, ticks = play(stream)
    gone = int(rng.integers(stream.c.shape[1]))
    state.remove_peer(stream.peers[gone])
    stay = [p for p in range(stream.c.shape[1]) if p != gone]
    corrected = stream.c.copy()
    for t in np.flatnonzero(rng.random(len(stream)) < 0.3):
        corrected[t, stay] = labels(rng, len(stay), 0.2, 0.3)
        order, groups = [*stay, gone], stream.groups[t, [*stay, gone]]
        state.write(stream.phis[t], stream.c[t, order], ticks[t], sign=-1.0, groups=groups)
        state.write(stream.phis[t], corrected[t, order], ticks[t], groups=groups)
    settings = stream.settings
    M, _ = naive.competence(stream.phis, corrected, settings.gamma, settings.step)
    G = naive.relation(corrected, settings.gamma_g, settings.eta_g)
    np.testing.assert_allclose(state.M, M[stay], atol=1e-10)
    np.testing.assert_allclose(state.G, G[np.ix_(stay, stay)], atol=1e-10)
    fresh = play(replace(stream, c=corrected))[0]
    fresh.remove_peer(stream.peers[gone])
    assert state.alternatives(stream.phis[0]) == pytest.approx(fresh.alternatives(stream.phis[0]), rel=1e-9)
