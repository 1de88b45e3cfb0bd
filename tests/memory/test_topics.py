"""Topics beside text: the sums are the kernel's, a memory without topics does not know of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from sigma_mem.errors import InputError
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory import topics as topics_module
from sigma_mem.memory.kernel import pair_products, scores
from sigma_mem.memory.topics import (
    SHARES,
    _kernel_sums,
    checked_topics,
    topic_kernel,
    topic_overlap,
)

from .strategies import TOPICS, decays, play, probe, streams


def kernel_sums(state, phi, asked):
    """x_bᵀM_b x_b/η and x_bᵀN_b x_b/η of every peer and share, (2, P, B), as of now."""
    factor = state.sums.factor(state.settings.rate, state.now)[:-1]
    of_text = scores(state.sums, "competence", phi, pair_products(phi))[:2] * factor
    across, within, _, _ = state.topics._blocks(state.sums, phi, asked)
    return _kernel_sums(of_text, across * factor, within * factor)


@given(stream=streams(decay=decays()))
def test_every_share_has_the_kernel_of_its_definition(stream):
    state, ticks = play(stream)
    weight = np.exp(-stream.settings.rate * (state.now - np.array(ticks)))[:, None]
    right, seen = np.nan_to_num(stream.c) * weight, ~np.isnan(stream.c) * weight
    for phi in (*probe(state.rank), np.zeros(state.rank)):
        for asked in ((TOPICS[0],), TOPICS[1:3], ("new",)):
            sums = kernel_sums(state, phi, asked)
            shared = np.array([topic_overlap(some, asked) for some in stream.topics])
            for i, b in enumerate(SHARES):
                k = ((1 - b) * (stream.phis @ phi) + b * shared) ** 2
                np.testing.assert_allclose(sums[0, :, i], k @ right, atol=1e-8)
                np.testing.assert_allclose(sums[1, :, i], k @ seen, atol=1e-8)


@given(stream=streams(decay=decays()))
def test_a_memory_that_is_asked_without_topics_has_the_bits_of_one_that_never_had_any(stream):
    with_topics, _ = play(stream)
    without = stream.state()
    for t in range(len(stream)):
        tick = without.begin_labels(stream.decide(without, t))
        known = {name: x for name, x in stream.recorded(t).items() if not name.startswith("topic")}
        without.write(stream.phis[t], stream.c[t], tick, **known)
    assert without.topics.names == ()
    packed = {name: x for name, x in with_topics.pack().items() if not name.startswith("topics.")}
    for name, array in packed.items():
        assert array.tobytes() == without.pack()[name].tobytes(), name
    for phi in probe(without.rank):
        one, two = with_topics.read(phi), without.read(phi)
        assert one.topics is None
        for name in ("score", "effective", "prob", "near", "slowest", "labels", "observations"):
            assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name


def taught(n_topics, n_peers=2, rank=4):
    state, one = (
        SigmaState([str(i) for i in range(n_peers)], rank, Settings(gamma=1.0)),
        np.ones((2, n_peers)),
    )
    for i in range(n_topics):
        state.topics.write(state.sums, np.eye(rank)[0], (f"topic {i}",), one, one)
    return state


def room(state):
    return sum(state.sums[name].nbytes for name in ("topics.vectors", "topics.pairs"))


def test_a_thousand_topics_take_what_the_docs_say_and_more_take_little_more():
    assert 8 * 2**20 < room(taught(1000, n_peers=8, rank=64)) < 13 * 2**20
    many = taught(3_000)
    assert len(many.topics.names) == topics_module.MOST_TOPICS
    assert room(many) == room(taught(6_000))
    alone = kernel_sums(many, np.zeros(4), ("topic 3",))[:, :, -1]
    np.testing.assert_allclose(alone, [[0.81] * 2] * 2)  # one of the first: its own label and no other


def test_a_topic_beyond_the_limit_shares_sums_by_its_name(monkeypatch):
    monkeypatch.setattr(topics_module, "MOST_TOPICS", 3)
    state = taught(3)
    for _ in range(5):
        state.topics.write(state.sums, np.eye(4)[0], ("late",), np.ones((2, 2)), np.ones((2, 2)))
    np.testing.assert_allclose(kernel_sums(state, np.zeros(4), ("late",))[1, :, -1], 5 * 0.81)
    assert state.topics.names == ("topic 0", "topic 1", "topic 2")


def test_pairs_beyond_the_limit_are_left_out_and_stay_so(monkeypatch):
    monkeypatch.setattr(topics_module, "_MOST_PAIRS", 3)
    state, phi, one = taught(0, n_peers=1, rank=1), np.zeros(1), np.ones((2, 1))
    state.topics.write(state.sums, phi, ("a", "b"), one, one)  # a, a and b, and b
    state.topics.write(state.sums, phi, ("a", "c"), one, one)
    first, second = (kernel_sums(state, phi, some)[1, 0, -1] for some in ("ab", "ac"))
    assert first == pytest.approx(0.81 * (1.0 + 0.25))  # kernels 1 and ½²
    assert second == pytest.approx(0.81 * (0.5 + 0.25))  # the event itself counts by each topic alone
    state.topics.write(state.sums, phi, ("a", "c"), -one, one)
    state.topics.write(state.sums, phi, ("a", "b"), -one, one)
    for name in ("pairs", "squares", "recent"):
        assert not state.sums[f"topics.{name}"].any()


def test_a_new_topic_takes_nothing_from_what_the_text_says():
    state, phi = SigmaState(["ann", "bob"], 2), np.array([1.0, 0.0])
    for i in range(60):
        known = state.read(phi, topics=("law", "sport")[i % 2 : i % 2 + 1])
        c = np.array([1.0, -1.0])
        state.write(
            phi, c, state.begin_event(), topics=("law", "sport")[i % 2 : i % 2 + 1],
            claims=known.claims, topic_claims=known.topics.claims,
        )  # fmt: skip
    new, text = state.read(phi, topics=("unheard of",)), state.read(phi)
    np.testing.assert_allclose(new.prob, text.prob, atol=0.02)


@pytest.mark.parametrize("telling", [True, False])
def test_topics_count_where_they_tell_something(telling):
    state, rng = SigmaState(["ann", "bob"], 4), np.random.default_rng(0)
    for i in range(400):
        topic = "law" if i % 2 else "sport"
        phi = np.append(np.eye(3)[rng.integers(3)], 0.2)
        phi /= np.linalg.norm(phi)
        good = (i % 2 if telling else phi[0] > 0.5) == (rng.random() < 0.9)
        reading = state.read(phi, topics=(topic,))
        state.write(
            phi, np.array([1.0, -1.0]) * (1 if good else -1), state.begin_event(), topics=(topic,),
            claims=reading.claims, topic_claims=reading.topics.claims,
        )  # fmt: skip
    share = float(reading.topics.weights @ SHARES)
    assert share > 0.6 if telling else share < 0.2


def lived(records):
    """A state after rounds in which both are labelled on every topic: (rounds, topic → labels)."""
    state, phi = SigmaState(["ann", "bob"], 2), np.array([1.0, 0.0])
    for rounds, right in records:
        for _ in range(rounds):
            for topic, c in right.items():
                reading = state.read(phi, topics=(topic,))
                state.write(
                    phi, np.array(c), state.begin_event(), topics=(topic,),
                    claims=reading.claims, topic_claims=reading.topics.claims,
                )  # fmt: skip
    return state, phi


def test_a_peer_that_changed_on_one_topic_is_known_by_its_newest_labels_there():
    before = {"law": (1.0, 1.0), "sport": (-1.0, 1.0)}
    state, phi = lived([(60, before), (60, {"law": (-1.0, 1.0), "sport": (1.0, 1.0)})])  # ann turned around
    law, sport = (state.read(phi, topics=(topic,)).prob for topic in ("law", "sport"))
    assert law[0] < 0.3  # and a half over the whole record
    assert sport[0] > 0.7
    assert min(law[1], sport[1]) > 0.95
    high = state.read(phi, topics=("law",)).interval()[1]
    for _ in range(500):
        state.begin_event()
    paused = state.read(phi, topics=("law",))
    np.testing.assert_allclose(paused.prob, law, atol=1e-6)
    assert paused.interval()[1][0] > high[0]


def test_a_steady_peer_is_not_judged_by_its_newest_labels_alone():
    rng = np.random.default_rng(0)
    mixed = [(1, {"law": np.where(rng.random(2) < 0.7, 1.0, -1.0)}) for _ in range(150)]
    state, phi = lived([*mixed, (4, {"law": (-1.0, -1.0)})])
    assert (state.read(phi, topics=("law",)).prob > 0.5).all()


def test_the_kernel_of_an_explanation_is_that_of_the_sums():
    similarity, shared = np.array([0.5, 1.0]), np.array([0.0, 1.0])
    np.testing.assert_allclose(topic_kernel(similarity, shared, (SHARES == 0.6) * 1.0), [0.04, 1.0])
    assert topic_overlap(("law", "german"), ("law",)) == pytest.approx(math.sqrt(0.5))
    assert topic_overlap(("law", "german"), ("german", "law")) == pytest.approx(1.0)
    assert topic_overlap(("law",), ()) == 0.0


def test_topics_are_checked():
    assert checked_topics(None) == checked_topics([]) == ()
    assert checked_topics("law") == ("law",)
    assert checked_topics({"b", "a"}) == ("a", "b")
    for wrong in ("", ["law", ""], 3, [None], b"law", "x" * 201):
        with pytest.raises(InputError, match=r"topic is .* expected text of 1 to 200 characters"):
            checked_topics(wrong)
    with pytest.raises(InputError, match="got 9 topics; expected at most 8"):
        checked_topics([str(i) for i in range(9)])


def test_equal_peers_get_equal_bits():
    state, rng = SigmaState(list("abcde"), 7, Settings()), np.random.default_rng(1)
    for _ in range(90):
        phi = rng.normal(size=7)
        phi /= np.linalg.norm(phi)
        reading = state.read(phi, topics=("law",))
        assert len(set(reading.prob.tolist())) == 1
        assert len(set(reading.score.tolist())) == 1
        c = np.full(5, 1.0 if rng.random() < 0.7 else -1.0)
        state.write(phi, c, state.begin_event(), topics=("law",), topic_claims=reading.topics.claims)
