"""What is not observed does not change a mean, whatever came before: over random histories."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState

PEERS, RANK = 3, 4
few = settings(max_examples=settings().max_examples // 4)  # an example is hundreds of events
AGREEMENTS = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])


def direction(draw_seed: int) -> np.ndarray:
    phi = np.abs(np.random.default_rng(draw_seed).normal(size=RANK)) + 0.1
    return phi / np.linalg.norm(phi)


@st.composite
def histories(draw):
    """Settings, and events of every kind: everyone labelled, one labelled, only answered, nothing at all."""
    settings_ = Settings(agreement=draw(st.booleans()), regression=draw(st.booleans()))
    if draw(st.booleans()):
        settings_ = Settings(decay="time", half_life=draw(st.sampled_from([100.0, 500.0])))
    if draw(st.booleans()):
        settings_ = Settings(gamma=draw(st.sampled_from([0.9, 0.999])))
    runs = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["all", "one", "answers", "nothing"]),
                st.integers(0, PEERS - 1),
                st.integers(1, 40),
                st.floats(0.0, 1.0),
                st.sampled_from([(), ("law",), ("law", "german")]),
            ),
            min_size=1,
            max_size=8,
        )
    )
    return settings_, runs, draw(st.integers(0, 99))


def lived(settings_, runs, seed):
    """A state after this history, and how many labels every peer has."""
    rng, state, labels = (
        np.random.default_rng(seed),
        SigmaState(list("abc"), RANK, settings_),
        np.zeros(PEERS),
    )
    time = 0.0
    for kind, peer, length, rate, topics in runs:
        for _ in range(length):
            time += 1.0
            phi = direction(int(rng.integers(6)))
            reading = state.read(phi, state.moment(time), topics)
            tick = state.begin_event(time)
            c = np.where(rng.random(PEERS) < rate, 1.0, -1.0)
            if kind == "one":
                c[np.arange(PEERS) != peer] = np.nan
            if kind in ("answers", "all"):
                state.write_agreement(phi, AGREEMENTS[int(seed + peer) % len(AGREEMENTS)], tick)
            if kind in ("all", "one"):
                of_topics = None if reading.topics is None else reading.topics.claims
                state.write(phi, c, tick, claims=reading.claims, topics=topics, topic_claims=of_topics)
                labels += c == c
    return state, labels, time


@few
@given(histories(), st.integers(1, 3000))
def test_a_pause_moves_no_mean_and_narrows_no_interval(history, pause):
    state, _, time = lived(*history)
    phi = direction(1)
    before = state.read(phi, state.moment(time)), state.read(phi, state.moment(time), ("law",))
    for _ in range(min(pause, 50)):
        time += pause / min(pause, 50)
        state.begin_event(time)
    after = state.read(phi, state.moment(time)), state.read(phi, state.moment(time), ("law",))
    for then, now in zip(before, after, strict=True):
        np.testing.assert_allclose(now.prob, then.prob, atol=0.01)  # M at the fast rate may have underflowed
        assert (now.observations <= then.observations * (1.0 + 1e-9)).all()


@few
@given(histories(), st.integers(1, 300), st.floats(0.0, 1.0))
def test_labels_of_others_hardly_move_a_peer(history, events, rate):
    state, labels, time = lived(*history)
    phi, rng = direction(1), np.random.default_rng(0)
    before = state.read(phi, state.moment(time)).prob
    for _ in range(events):
        time += 1.0
        other = direction(int(rng.integers(6)))
        reading, tick = state.read(other, state.moment(time)), state.begin_event(time)
        c = np.array([np.nan, 1.0 if rng.random() < rate else -1.0, np.nan])
        state.write(other, c, tick, claims=reading.claims)
    after = state.read(phi, state.moment(time)).prob
    firm = state.settings.strength / (labels + state.settings.strength)  # what the pool's level counts
    for peer in (0, 2):
        assert abs(after[peer] - before[peer]) <= 0.05 + 0.5 * firm[peer]


@few
@given(histories())
def test_agreement_moves_nobody_who_did_not_answer(history):
    state, _, time = lived(*history)
    phi = direction(1)
    before = state.read(phi, state.moment(time)).prob
    for _ in range(20):
        tick = state.begin_event(time)
        state.write_agreement(phi, np.array([0.0, -1.0, np.nan]), tick)
    after = state.read(phi, state.moment(time)).prob
    np.testing.assert_allclose(after[2], before[2], atol=0.01)


@few
@given(histories())
def test_one_event_of_agreement_is_one_event(history):
    state, _, time = lived(*history)
    phi = direction(1)
    before = state.read(phi, state.moment(time)).prob
    tick = state.begin_event(time)
    state.write_agreement(phi, np.array([1.0, 1.0, -1.0]), tick)
    assert np.abs(state.read(phi, state.moment(time)).prob - before).max() <= 0.1


@few
@given(st.integers(0, 99), st.integers(5, 300))
def test_a_peer_that_is_always_right_is_trusted(seed, others):
    rng, state, phi = np.random.default_rng(seed), SigmaState(list("abc"), RANK), direction(1)
    for _ in range(300):
        reading, tick = state.read(phi), state.begin_event()
        c = np.array([1.0, *np.where(rng.random(2) < 0.4, 1.0, -1.0)])
        state.write(direction(int(rng.integers(6))), c, tick, claims=reading.claims)
    assert state.read(phi).prob[0] >= 0.95


@few
@given(st.integers(0, 99), st.integers(0, 200), st.integers(0, 600))
def test_fifty_wrong_in_a_row_stay_distrusted(seed, right, later):
    rng, state = np.random.default_rng(seed), SigmaState(list("abc"), RANK)

    def label(c):
        phi = direction(int(rng.integers(6)))
        reading, tick = state.read(phi), state.begin_event()
        state.write(phi, np.array(c), tick, claims=reading.claims)

    for i in range(right + 50):
        label([1.0 if i < right else -1.0, np.nan, np.nan])
    for _ in range(later):
        label([np.nan, 1.0 if rng.random() < 0.6 else -1.0, np.nan])
    assert state.read(direction(1)).prob[0] < 0.3


@few
@given(st.integers(0, 99), st.sampled_from([2, 5, 8]), st.floats(0.2, 0.7))
def test_where_a_peer_failed_it_stays_distrusted_however_well_it_did_elsewhere_since(seed, peers, cosine):
    """30 wrong here, then 300 right elsewhere, then only others are labelled."""
    rng, state = np.random.default_rng(seed), SigmaState([str(p) for p in range(peers)], RANK)
    here, there = np.eye(RANK)[0], np.array([cosine, (1.0 - cosine**2) ** 0.5, 0.0, 0.0])
    for kind in ["here"] * 30 + ["there"] * 300 + ["others"] * 200:
        phi = here if kind == "here" or (kind == "others" and rng.random() < 0.5) else there
        reading, tick, c = state.read(phi), state.begin_event(), np.full(peers, np.nan)
        if kind == "others":
            c[rng.integers(1, peers)] = 1.0 if rng.random() < 0.55 else -1.0
        else:
            c[0] = -1.0 if kind == "here" else 1.0
        state.write(phi, c, tick, claims=reading.claims)
    assert state.read(here).prob[0] < 0.15
