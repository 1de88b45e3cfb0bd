import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.errors import InputError
from sigma_mem.memory import Settings, replay
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.copies import agreement_beside_copies, votes_among

from . import naive
from .strategies import streams


@given(stream=streams(), chunk=st.integers(1, 200), voted=st.booleans(), copies=st.integers(0, 3))
def test_replay_is_the_loop_for_any_chunk_and_any_missing_labels(stream, chunk, voted, copies):
    rng = np.random.default_rng(chunk)
    stream.groups[:, 1 : 1 + copies] = stream.groups[:, :1]
    features = rng.normal(size=(*stream.c.shape, 3)) if voted else None
    got = replay(stream.phis, stream.c, stream.settings, stream.groups if voted else None, chunk, features)
    state = stream.state()
    for t, (phi, c, groups) in enumerate(zip(stream.phis, stream.c, stream.groups, strict=True)):
        reading = state.read(phi)
        total, labels = state.competence.trace(state.now)
        for name, expected in (
            ("score", reading.score),
            ("effective", reading.effective),
            ("prob", reading.prob),
            ("total", total),
            ("labels", labels),
            ("G", state.G),
            ("alternatives", state.alternatives(phi)),
            ("readable", state.readable),
            ("text_log_odds", 0.0 if features is None else state.text_log_odds(features[t], groups >= 0)),
        ):
            np.testing.assert_allclose(getattr(got, name)[t], expected, atol=1e-9, rtol=1e-9, err_msg=name)
        agreement, copying = agreement_labels(groups) if voted else None, state.copying()
        if copying is not None:
            votes = votes_among(groups, copying)
            agreement = agreement_beside_copies(groups, copying, votes)
            np.testing.assert_allclose(got.votes[t], votes, atol=1e-9)
        else:
            np.testing.assert_array_equal(got.votes[t], 1.0)
        tick, claims = state.begin_event(), reading.recorded()
        if agreement is not None:
            state.write_agreement(phi, agreement, tick)
            state.write_copies(groups, tick)
        if agreement is not None and features is not None:
            state.write_agreed_texts(features[t], np.where(groups >= 0, agreement, np.nan), tick)
        state.write(phi, c, tick, groups=groups if voted else None, agreement=agreement, claims=claims)
        if features is not None:
            residual = np.where(groups >= 0, c - (2.0 * reading.prob - 1.0), np.nan)
            state.features.write(features[t], residual, state.now)


@given(stream=streams(max_events=40), chunk=st.integers(1, 50))
def test_replay_is_the_papers_memory_before_every_event(stream, chunk):
    stream = stream.plain()
    got = replay(stream.phis, stream.c, stream.settings, stream.groups, chunk)
    s = stream.settings
    for t in {0, len(stream) // 2, len(stream) - 1}:
        M, N = naive.competence(stream.phis[:t], stream.c[:t], s.gamma, s.step)
        phi = stream.phis[t]
        np.testing.assert_allclose(got.score[t], [phi @ m @ phi for m in M], atol=1e-9)
        np.testing.assert_allclose(
            got.prob[t], naive.calibrated(M, N, phi, s.step, s.prior, s.strength), atol=1e-9
        )
        np.testing.assert_allclose(got.G[t], naive.relation(stream.c[:t], s.gamma_g, s.eta_g), atol=1e-9)


def test_a_label_is_not_seen_before_its_event():
    phis = np.ones((5, 1))
    c = np.zeros((5, 2))
    changed = c.copy()
    changed[3] = [1.0, -1.0]
    one, two = replay(phis, c), replay(phis, changed)
    for name in ("score", "effective", "prob", "total", "labels", "G", "alternatives", "readable"):
        assert np.array_equal(getattr(one, name)[:4], getattr(two, name)[:4]), name
        blind = name in ("effective", "labels", "alternatives", "readable")
        assert blind or not np.array_equal(getattr(one, name)[4], getattr(two, name)[4])


def test_an_empty_stream_has_nothing_to_say():
    got = replay(np.zeros((0, 3)), np.zeros((0, 2)))
    assert got.score.shape == (0, 2)
    assert got.G.shape == (0, 2, 2)


def test_replay_knows_decay_by_event_only():
    with pytest.raises(InputError, match="decay is 'labelled'"):
        replay(np.ones((1, 1)), np.ones((1, 1)), Settings(decay="labelled"))
