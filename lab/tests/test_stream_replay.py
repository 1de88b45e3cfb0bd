"""A replay is the loop of reads and writes that a memory would have gone through."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import naive
from memory.strategies import streams
from sigma_lab.replay import Replay, replay
from sigma_mem.errors import InputError
from sigma_mem.memory import Settings
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.copies import agreement_beside_copies, votes_among

seeds = st.integers(0, 2**32 - 1)


def loop(stream, features=None, voted=True, topics=False):
    """Every event read and written by hand; yields what a replay must have said of it."""
    state = stream.state()
    for t, (phi, c, groups) in enumerate(zip(stream.phis, stream.c, stream.groups, strict=True)):
        some = stream.topics[t] if topics else ()
        reading, copying = state.read(phi, topics=some), state.copying()
        asked = voted and bool((groups > -2).any())  # otherwise there is nothing to vote on
        said = {
            "score": reading.score,
            "effective": reading.effective,
            "prob": reading.prob,
            "rate": state.overall()[0],
            "G": state.G,
            "alternatives": state.alternatives(phi) if asked else 1.0,
            "readable": state.readable if asked else 1.0,
            "labelled": state.labelled,
            "text_log_odds": 0.0 if features is None else state.text_log_odds(features[t], groups >= 0),
            "votes": votes_among(groups, copying) if asked and copying is not None else 1.0,
        }
        yield t, said
        agreement, tick = agreement_labels(groups), state.begin_event()
        if asked:
            if copying is not None:
                agreement = agreement_beside_copies(groups, copying, said["votes"])
            state.write_agreement(phi, agreement, tick)
            state.write_copies(groups, tick)
            if features is not None:
                state.write_agreed_texts(features[t], np.where(groups >= 0, agreement, np.nan), tick)
        claims = None if reading.topics is None else reading.topics.claims
        state.write(
            phi, c, tick, groups=groups if asked else None, claims=reading.claims, topics=some,
            topic_claims=claims,
        )  # fmt: skip
        if features is not None:
            state.features.write(
                features[t], np.where(groups >= 0, c - (2.0 * reading.prob - 1.0), np.nan), tick
            )


def assert_said(found: Replay, t, said):
    for name, expected in said.items():
        np.testing.assert_allclose(getattr(found, name)[t], expected, atol=1e-9, rtol=1e-9, err_msg=name)


@given(stream=streams(max_events=80), seed=seeds, voted=st.booleans(), copies=st.integers(0, 3))
def test_replay_is_the_loop_for_any_missing_labels(stream, seed, voted, copies):
    stream.groups[:, 1 : 1 + copies] = stream.groups[:, :1]
    features = np.random.default_rng(seed).normal(size=(*stream.c.shape, 3)) if voted else None
    found = replay(stream.phis, stream.c, stream.settings, stream.groups if voted else None, features)
    for t, said in loop(stream, features, voted):
        assert_said(found, t, said)


@given(stream=streams(max_events=80, min_peers=2))
def test_replay_is_the_loop_with_topics(stream):
    found = replay(stream.phis, stream.c, stream.settings, stream.groups, topics=stream.topics)
    for t, said in loop(stream, topics=True):
        assert_said(found, t, said)


@given(stream=streams(max_events=40))
def test_replay_is_the_papers_memory_before_every_event(stream):
    stream = stream.plain()
    found = replay(stream.phis, stream.c, stream.settings, stream.groups)
    s, ticks = stream.settings, np.arange(1.0, len(stream) + 1.0)
    for t in {0, len(stream) // 2, len(stream) - 1}:
        M, _ = naive.competence(stream.phis[:t], stream.c[:t], s.gamma, s.step)
        phi = stream.phis[t]
        np.testing.assert_allclose(found.score[t], [phi @ m @ phi for m in M], atol=1e-9)
        np.testing.assert_allclose(found.G[t], naive.relation(stream.c[:t], s.gamma_g, s.eta_g), atol=1e-9)
        history = naive.History(stream.phis[:t], stream.c[:t], ticks[:t], groups=stream.groups[:t])
        np.testing.assert_allclose(found.prob[t], naive.read(history, s, phi).prob, atol=1e-9)


def test_a_label_is_not_seen_before_its_event():
    phis = np.ones((5, 1))
    c = np.zeros((5, 2))
    changed = c.copy()
    changed[3] = [1.0, -1.0]
    one, two = replay(phis, c), replay(phis, changed)
    for name in ("score", "effective", "prob", "rate", "G", "alternatives", "readable", "labelled"):
        assert np.array_equal(getattr(one, name)[:4], getattr(two, name)[:4]), name
        blind = name in ("effective", "labelled", "alternatives", "readable")
        assert blind or not np.array_equal(getattr(one, name)[4], getattr(two, name)[4])


def test_an_empty_stream_has_nothing_to_say():
    found = replay(np.zeros((0, 3)), np.zeros((0, 2)))
    assert found.score.shape == (0, 2)
    assert found.G.shape == (0, 2, 2)


def test_replay_knows_decay_by_event_only():
    with pytest.raises(InputError, match="decay is 'labelled'"):
        replay(np.ones((1, 1)), np.ones((1, 1)), Settings(decay="labelled"))
