"""A snapshot is the memory bit for bit, and moving anchors changes nothing of what is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.strategies import assert_bitwise, assert_same, decays, play, probe, streams
from sigma_mem.memory import Settings, SigmaState, sums


def copied(state):
    arrays = {name: np.array(value) for name, value in state.pack().items()}
    out = SigmaState(state.peers, state.rank, state.settings, state.n_features)
    out.unpack(arrays)
    return out


@given(stream=streams(decay=decays(), weighted=True), cut=st.integers(0, 150))
def test_a_snapshot_continues_bit_for_bit(stream, cut):
    cut = min(cut, len(stream))
    whole, resumed = stream.state(), stream.state()
    for t in range(len(stream)):
        if t == cut:
            resumed = copied(resumed)
            assert_bitwise(whole, resumed)
        for state in (whole, resumed):
            tick = state.begin_labels(stream.decide(state, t))
            state.write(stream.phis[t], stream.c[t], tick, **stream.recorded(t))
    assert_bitwise(whole, resumed)
    assert (whole.clock, whole.now) == (resumed.clock, resumed.now)


@pytest.mark.parametrize("gamma", [0.8525073470341716, 0.8710514705600819])
def test_the_anchor_moves_at_the_same_event_with_and_without_a_restart(gamma):
    """Of these decays 96 halvings are a whole number of events, to rounding."""
    whole = SigmaState(["a", "b"], 1, Settings(gamma=gamma))
    for _ in range(500):
        resumed = copied(whole)
        for state in (whole, resumed):
            state.write(np.ones(1), np.array([1.0, -1.0]), state.begin_event())
        assert_bitwise(whole, resumed)


def test_a_snapshot_of_a_memory_that_has_not_begun_does_not_begin_it():
    empty = copied(SigmaState(["a"], 1, Settings(eta=1.0, decay="time", half_life=10.0)))
    unit = np.array([1.0])
    empty.write(unit, unit, empty.begin_event(1.7e9 + 1.0 / 3.0))
    empty.begin_event(1.7e9 + 3.7)
    # Ages that counted from 1970 would be right to eight digits only.
    assert empty.M.item() == pytest.approx(0.5 ** ((1.7e9 + 3.7 - (1.7e9 + 1.0 / 3.0)) / 10.0), rel=1e-13)


@given(stream=streams(decay=decays(), weighted=True))
def test_reading_changes_no_bit(stream):
    state, _ = play(stream)
    before = copied(state)
    for phi in probe(state.rank):
        state.read(phi)
        state.readout(phi)
        state.alternatives(phi)
    _ = state.M, state.N, state.G, state.readable, state.overall()
    assert_bitwise(state, before)


@pytest.mark.parametrize("far", [1.0, 5.0])
@given(stream=streams(decay=decays(), weighted=True))
def test_it_does_not_matter_how_often_anchors_move(far, stream):
    """Here after one or five halvings instead of 400."""
    rarely, _ = play(stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "_FAR", far)
        often, _ = play(stream)
    assert_same(rarely, often)
