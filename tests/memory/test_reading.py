"""What a read tells: a pause widens the interval and moves no mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.rates import wilson
from sigma_mem.memory.reading import Reading

from .strategies import TOPICS, decays, play, probe, streams

PHI = np.array([1.0, 0.0])


def pause(stream, state, events):
    """Events without answers, for two half-lives by time."""
    seconds = np.linspace(0.0, 2.0 * (stream.settings.half_life or 1.0), events)
    for time in stream.times[-1] + seconds:
        state.begin_event(time)


@given(stream=streams(decay=decays(), weighted=True), events=st.integers(1, 60))
def test_a_pause_widens_intervals_and_leaves_p(stream, events):
    """Events without answers, by event and by time; while labels decide, nothing ages."""
    state, _ = play(stream)
    before = [state.read(phi) for phi in probe(state.rank)]
    rates, _ = state.overall()
    pause(stream, state, events)
    np.testing.assert_allclose(state.overall()[0], rates, rtol=1e-9)
    for phi, was in zip(probe(state.rank), before, strict=True):
        now = state.read(phi)
        np.testing.assert_allclose(now.prob, was.prob, rtol=1e-9)
        np.testing.assert_allclose(now.labels, was.labels, rtol=1e-9)
        assert (now.observations <= was.observations * (1.0 + 1e-12)).all()
        (low, high), (low_then, high_then) = now.interval(), was.interval()
        assert (low <= low_then + 1e-12).all()
        assert (high >= high_then - 1e-12).all()


@given(stream=streams(decay=decays()), events=st.integers(1, 60))
def test_a_pause_leaves_p_of_a_topic(stream, events):
    state, _ = play(stream)
    asked = [(phi, topics) for phi in probe(state.rank) for topics in (TOPICS[:1], TOPICS[1:3])]
    before = [state.read(phi, topics=topics).prob for phi, topics in asked]
    pause(stream, state, events)
    for (phi, topics), was in zip(asked, before, strict=True):
        np.testing.assert_allclose(state.read(phi, topics=topics).prob, was, atol=1e-9)


@given(stream=streams(weighted=True), events=st.integers(1, 60))
def test_labels_of_others_leave_the_interval_no_narrower(stream, events):
    state, _ = play(stream)
    state.add_peer("other")
    was = state.read(probe(state.rank)[0])
    for _ in range(events):
        c = np.full(len(state.peers), np.nan)
        c[-1] = 1.0
        state.write(probe(state.rank)[1], c, state.begin_event())
    now = state.read(probe(state.rank)[0])
    assert (now.effective[:-1] <= was.effective[:-1] * (1.0 + 1e-12)).all()
    np.testing.assert_allclose(now.labels[:-1], was.labels[:-1], rtol=1e-12)


@pytest.mark.parametrize("settings", [Settings(), Settings(gamma=0.99), Settings(agreement=False)])
def test_the_interval_narrows_with_labels_and_widens_in_a_pause(settings):
    state, widths = SigmaState(["a"], 2, settings), []

    def width():
        low, high = state.read(PHI).interval()
        return (high - low).item()

    for t in range(200):
        reading, tick = state.read(PHI), state.begin_event()
        state.write(PHI, np.array([1.0 if t % 4 else -1.0]), tick, claims=reading.claims)
        if t in (5, 50, 199):
            widths.append(width())
    assert widths[0] > widths[1] > widths[2]
    prob = state.read(PHI).prob
    for _ in range(300):
        state.begin_event()
    assert width() > widths[-1] * 1.05
    np.testing.assert_allclose(state.read(PHI).prob, prob, rtol=1e-9)


@pytest.mark.parametrize("events", [500, 5_000, 50_000])
def test_a_peer_that_went_bad_is_not_forgiven_while_only_others_are_asked(events):
    """Right 120 times and then wrong 55 times; whatever comes afterwards is not about it."""
    state = SigmaState(["bad", "other"], 2)
    for t in range(175):
        reading, tick = state.read(PHI), state.begin_event()
        state.write(PHI, np.array([1.0 if t < 120 else -1.0, 1.0]), tick, claims=reading.claims)
    before = state.read(PHI).prob
    for t in range(events):
        if t % 10:
            state.begin_event()
        else:
            reading, tick = state.read(PHI), state.begin_event()
            state.write(PHI, np.array([np.nan, 1.0]), tick, claims=reading.claims)
    assert before[0] < 0.3
    assert state.read(PHI).prob == pytest.approx(before, abs=0.05)


@pytest.mark.parametrize("days", [1, 30, 400])
def test_a_read_long_after_the_last_event_says_the_same(days):
    """By time: whoever looks does not write, so that no anchor moves."""
    state = SigmaState(["a", "b"], 2, Settings(decay="time", half_life=3600.0))
    for t in range(100):
        time = 1.7e9 + 60.0 * t
        reading, tick = state.read(PHI, topics=("law",)), state.begin_event(time)
        state.write(
            PHI, np.array([1.0, 1.0 if t < 60 else -1.0]), tick, claims=reading.claims, topics=("law",),
            topic_claims=reading.topics.claims,
        )  # fmt: skip
    later = state.moment(1.7e9 + 86400.0 * days)
    for topics in ((), ("law",), ("sport",)):
        was, now = state.read(PHI, topics=topics), state.read(PHI, at=later, topics=topics)
        np.testing.assert_allclose(now.prob, was.prob, atol=1e-9)
        assert (now.observations < was.observations).all()


def reading(prob, effective, **other):
    prob, effective = np.array(prob, dtype=float), np.array(effective, dtype=float)
    mean, none = 2.0 * prob - 1.0, np.zeros(len(prob))
    given = {"claims": None, "recent": effective, "leverage": None, "near": mean, "slowest": mean}
    given |= dict.fromkeys(("of_local", "doubt", "of_regression"), none)
    given["away"] = lambda: (none, none)
    return Reading(score=none, effective=effective, prob=prob, labels=effective, **(given | other))


def test_observations_are_labels_near_phi_and_half_of_one_that_is_taken_for_granted():
    assert reading([0.5, 0.9], [0.0, 24.0]).observations.tolist() == pytest.approx([0.5, 24.5])


def test_claims_that_are_apart_take_observations_away():
    sure, unsure = (
        reading([0.6], [50.0]),
        reading([0.6], [50.0], away=lambda: (np.zeros(1), np.array([0.04]))),
    )
    assert unsure.observations[0] < 0.5 * sure.observations[0]


def test_where_the_regression_is_believed_its_leverage_counts():
    regressed = reading([0.6], [50.0], of_regression=np.ones(1), leverage=lambda: np.array([0.2]))
    assert regressed.observations[0] == pytest.approx(5.0)
    half = reading([0.6], [50.0], of_regression=np.full(1, 0.5), leverage=lambda: np.array([0.2]))
    assert half.observations[0] == pytest.approx(1.0 / (0.5 * 0.2 + 0.5 / 50.5))


def test_a_claim_that_rests_on_recent_labels_is_worth_no_more_than_they_are():
    slow = reading([0.6], [50.0])
    for of_local, worth in ((0.0, 50.5), (0.5, 50.5 / 3.0), (1.0, 50.5 / 5.0)):
        fast = reading([0.6], [50.0], recent=np.array([9.6]), of_local=np.array([of_local]))
        assert fast.observations[0] == pytest.approx(worth)
        assert fast.interval()[1] >= slow.interval()[1]


def test_a_peer_that_recovered_is_not_known_by_all_of_its_labels():
    """Right, wrong for a while, then right a hundred times: the last ones are what is known of it."""
    state = SigmaState(["a", "b"], 2)
    for t in range(400):
        seen, tick = state.read(PHI), state.begin_event()
        state.write(PHI, np.array([-1.0 if 150 <= t < 300 else 1.0, 1.0]), tick, claims=seen.claims)
    recovered, steady = state.read(PHI).observations
    assert recovered < 0.5 * steady
    low, high = (end[0] for end in state.read(PHI).interval())
    assert high - low > 0.05


def test_an_interval_reaches_what_labels_alone_say():
    """Twenty right of twenty, shrunk to 0.93: a truth of 0.99 is within it, and so is p̂."""
    shrunk, alone = (
        reading([0.93], [20.0]),
        reading([0.93], [20.0], away=lambda: (np.array([0.14]), np.zeros(1))),
    )
    assert shrunk.interval()[1][0] < 0.99 < alone.interval()[1][0]
    assert alone.interval()[0][0] <= 0.93


def test_the_interval_is_wilsons():
    here = reading([0.8, 0.3], [9.0, 99.0])
    for z in (1.0, 1.96):
        for mine, theirs in zip(here.interval(z), wilson(here.prob, here.observations, z), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)
