"""Peers are exchangeable: their order, who else is in the pool and how events were split do not matter."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import naive
from memory.strategies import TOPICS, assert_same, by_event, decays, play, probe, streams
from sigma_mem.memory import Settings, SigmaState

seeds = st.integers(0, 2**32 - 1)


@given(stream=streams(decay=decays(), weighted=True), seed=seeds)
def test_permuting_peers_permutes_the_memory(stream, seed):
    order = np.random.default_rng(seed).permutation(stream.c.shape[1])
    one, _ = play(stream)
    two = SigmaState([stream.peers[p] for p in order], one.rank, stream.settings)
    by_peer = ("c", "groups", "claims", "topic_claims", *(() if stream.weight is None else ("weight",)))
    permuted = replace(stream, **{name: getattr(stream, name)[:, order] for name in by_peer})
    play(permuted, two)
    np.testing.assert_allclose(two.M, one.M[order], atol=1e-12)
    np.testing.assert_allclose(two.N, one.N[order], atol=1e-12)
    np.testing.assert_allclose(two.G, one.G[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_allclose(two.readable, one.readable[order], atol=1e-12)
    for phi in probe(one.rank):
        assert abs(two.alternatives(phi) - one.alternatives(phi)) < 1e-12
        for topics in ((), TOPICS[:1]):
            expected = one.read(phi, topics=topics).prob[order]
            np.testing.assert_allclose(two.read(phi, topics=topics).prob, expected, atol=1e-11)


@given(stream=streams(decay=decays()), late=st.booleans())
def test_a_new_peer_leaves_the_others_as_they_are(stream, late):
    state, ticks = play(stream)
    M, N, G, readable = state.M, state.N, state.G, state.readable
    readings = [state.read(phi) for phi in probe(state.rank)]
    state.add_peer("newcomer")
    n = len(stream.peers)
    assert state.M[:n].tobytes() == M.tobytes()
    assert state.N[:n].tobytes() == N.tobytes()
    assert np.ascontiguousarray(state.G[:n, :n]).tobytes() == G.tobytes()
    assert state.readable[:n].tobytes() == readable.tobytes()
    assert state.readable[n] == 1.0
    assert not state.M[n].any()
    assert not state.N[n].any()
    for phi, before in zip(probe(state.rank), readings, strict=True):
        after = state.read(phi)
        # A BLAS product may sum in another order when there are more rows: the last bit or two.
        np.testing.assert_allclose(after.prob[:n], before.prob, rtol=1e-14)
        np.testing.assert_allclose(after.effective[:n], before.effective, rtol=1e-13, atol=1e-15)
        assert np.isclose(after.prob[n], state.overall()[0][n], atol=1e-15)
    if late:  # and it can be labelled for an event that it did answer
        before = np.append(stream.c[0], np.nan)
        state.write(stream.phis[0], before, ticks[0], sign=-1.0)
        state.write(stream.phis[0], np.append(stream.c[0], 1.0), ticks[0])
        np.testing.assert_allclose(state.M[:n], M, atol=1e-12)


@given(stream=streams(decay=decays(), weighted=True, min_peers=2), seed=seeds)
def test_a_peer_that_leaves_takes_only_itself(stream, seed):
    stream = replace(stream, settings=replace(stream.settings, agreement=False))
    state, ticks = play(stream)
    gone = seed % len(stream.peers)
    stay = [p for p in range(len(stream.peers)) if p != gone]
    M, N, G, readable = state.M, state.N, state.G, state.readable
    readings = [state.read(phi) for phi in probe(state.rank)]
    state.remove_peer(stream.peers[gone])
    assert state.peers == tuple(stream.peers[p] for p in stay)
    assert state.M.tobytes() == M[stay].tobytes()
    assert state.N.tobytes() == N[stay].tobytes()
    assert state.G.tobytes() == G[np.ix_(stay, stay)].tobytes()
    assert state.readable.tobytes() == readable[stay].tobytes()
    left = replace(
        stream, c=stream.c[:, stay], weight=None if stream.weight is None else stream.weight[:, stay],
        claims=stream.claims[:, stay], groups=stream.groups[:, stay],
    ).history(ticks)  # fmt: skip
    for phi, before in zip(probe(state.rank), readings, strict=True):
        after = state.read(phi)
        np.testing.assert_allclose(after.score, before.score[stay], rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(after.effective, before.effective[stay], rtol=1e-13, atol=1e-15)
        # p̂ moves only with the level of the pool and what its claims are worth: the one who left has no part.
        np.testing.assert_allclose(after.prob, naive.read(left, stream.settings, phi).prob, atol=1e-9)


@given(stream=streams(decay=decays(), weighted=True), seed=seeds)
def test_merged_memories_equal_one_that_saw_all_events(stream, seed):
    mine = np.random.default_rng(seed).random(len(stream)) < 0.5
    one, two = stream.state(), stream.state()
    for t, time in enumerate(stream.times):
        state, other = (one, two) if mine[t] else (two, one)
        other.begin_labels(other.begin_event(time))
        tick = state.begin_labels(stream.decide(state, t))
        state.write(stream.phis[t], stream.c[t], tick, **stream.recorded(t))
    untouched = two.M
    one.merge(two)
    assert_same(one, play(stream)[0])
    assert two.M.tobytes() == untouched.tobytes()


@pytest.mark.parametrize("into_the_later", [False, True])
@given(stream=streams(decay=by_event), cut=st.integers(0, 150))
def test_a_memory_that_stopped_earlier_is_aged_by_a_merge(into_the_later, stream, cut):
    """Whichever of the two is the older one."""
    cut = min(cut, len(stream))
    early, late = stream.state(), stream.state()
    for t in range(len(stream)):
        if t < cut:
            late.begin_event()
        state = early if t < cut else late
        state.write(stream.phis[t], stream.c[t], stream.decide(state, t), **stream.recorded(t))
    merged, other = (late, early) if into_the_later else (early, late)
    merged.merge(other)
    assert_same(merged, play(stream)[0])


def test_merge_matches_peers_by_name():
    settings = Settings(gamma=0.5, eta=1.0)
    one, two = SigmaState(["a", "b"], 1, settings), SigmaState(["c", "b"], 1, settings)
    unit = np.array([1.0])
    for state, c in ((one, [1.0, 1.0]), (two, [-1.0, 0.5])):
        state.write(unit, np.array(c), state.begin_event())
    one.merge(two)
    assert one.peers == ("a", "b", "c")
    assert one.M[:, 0, 0].tolist() == [1.0, 1.5, -1.0]
    assert one.clock == 1


@pytest.mark.parametrize("empty_first", [True, False])
def test_merging_with_an_empty_memory_by_time(empty_first):
    settings = Settings(eta=1.0, decay="time", half_life=10.0)
    empty, full = SigmaState(["a"], 1, settings), SigmaState(["a"], 1, settings)
    unit = np.array([1.0])
    full.write(unit, unit, full.begin_event(1.7e9))
    mine, other = (empty, full) if empty_first else (full, empty)
    mine.merge(other)
    assert mine.M.item() == 1.0
    mine.begin_event(1.7e9 + 10.0)
    assert mine.M.item() == pytest.approx(0.5, rel=1e-12)
