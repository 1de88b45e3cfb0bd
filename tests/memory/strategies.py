"""Streams that Hypothesis draws: few numbers that shrink well, and arrays made from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.topics import SHARES

from . import naive

TOPICS = ("law", "german", "sport", "tool")


@dataclass(frozen=True, repr=False)
class Stream:
    """phis (T, rank), labels c (T, P), NaN where missing, groups (T, P), times (T,), claims (T, P, K)."""

    phis: np.ndarray
    c: np.ndarray
    groups: np.ndarray
    times: np.ndarray
    claims: np.ndarray
    settings: Settings
    topics: tuple[tuple[str, ...], ...]  # of every event
    topic_claims: np.ndarray  # (T, P, B + 1)
    weight: np.ndarray | None = None  # (T, P), how much evidence every label is

    @property
    def peers(self):
        return [f"peer {p}" for p in range(self.c.shape[1])]

    def state(self):
        return SigmaState(self.peers, self.phis.shape[1], self.settings, n_features=3)

    def __len__(self):
        return len(self.phis)

    def plain(self):
        """The same stream for a memory as the paper has it: one horizon, no agreement, no regression."""
        horizons = (self.settings.gamma,)
        settings = replace(self.settings, horizons=horizons, agreement=False, regression=False)
        return replace(self, settings=settings, claims=self.claims[:, :, :0])

    def decide(self, state, t):
        """Begin event t and write its agreement and which answers are equal; returns its tick."""
        tick = state.begin_event(self.times[t])
        state.write_agreement(self.phis[t], agreement_labels(self.groups[t]), tick)
        state.write_answers(self.groups[t], tick)
        return tick

    def recorded(self, t):
        """What a ledger knows of event t when its labels are written."""
        return {
            "weight": None if self.weight is None else self.weight[t],
            "groups": self.groups[t],
            "claims": self.claims[t] if self.claims.shape[2] else None,
            "topics": self.topics[t],
            "topic_claims": self.topic_claims[t],
        }

    def history(self, ticks):
        """What a naive memory needs of it."""
        return naive.History(self.phis, self.c, ticks, self.weight, self.claims, self.groups)

    def __repr__(self):
        return (
            f"Stream({len(self)} events, {len(self.peers)} peers, rank {self.phis.shape[1]}, {self.settings})"
        )


def unit_rows(rng, n, rank):
    x = rng.normal(size=(n, rank))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def labels(rng, shape, missing, soft):
    c = np.where(rng.random(shape) < 0.6, 1.0, -1.0)
    c = np.where(rng.random(shape) < soft, rng.uniform(-1.0, 1.0, shape), c)
    return np.where(rng.random(shape) < missing, np.nan, c)


shares = st.sampled_from([0.0, 0.3, 0.8])
# 0.5 and 0.2 move the anchor every 32 or 14 events; 0.9995 is the default; 1 never forgets.
gammas = st.sampled_from([0.2, 0.5, 0.9, 0.99, 0.9995, 1.0])


by_event = st.just("event")


@st.composite
def all_settings(draw, decay=by_event):
    by = draw(decay)
    horizons = tuple(sorted({draw(gammas), *draw(st.lists(gammas, max_size=2))}))
    return Settings(
        horizons=horizons,
        agreement=draw(st.booleans()),
        regression=draw(st.booleans()),
        eta=draw(st.sampled_from([None, 0.05, 1.0])),
        gamma_g=draw(gammas),
        eta_g=draw(st.sampled_from([0.005, 0.1])),
        decay=by,
        half_life=draw(st.sampled_from([0.5, 20.0, 3600.0])) if by == "time" else None,
        prior=draw(st.sampled_from([0.5, 0.25])),
        strength=draw(st.sampled_from([4.0, 2.0])),
    )


@st.composite
def streams(draw, decay=by_event, max_events=150, min_peers=1, complete=False, weighted=False):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_events = draw(st.integers(1, max_events))
    n_peers = draw(st.integers(min_peers, 6))
    rank = draw(st.integers(1, 7))
    shape = (n_events, n_peers)
    settings = draw(all_settings(decay))
    most = draw(st.sampled_from([0, 1, 3]))  # topics of an event; 0 for a memory without any
    return Stream(
        phis=unit_rows(rng, n_events, rank),
        c=labels(rng, shape, 0.0 if complete else draw(shares), draw(shares)),
        groups=rng.integers(-2, 3, size=shape),
        times=1.7e9 + np.cumsum(rng.exponential(draw(st.sampled_from([0.1, 3.0])), n_events)),
        claims=rng.uniform(-0.98, 0.98, (n_events, n_peers, settings.n_claims)).astype(np.float16),
        settings=settings,
        topics=tuple(tuple(rng.permutation(TOPICS)[:k]) for k in rng.integers(0, most + 1, n_events)),
        topic_claims=rng.uniform(-0.98, 0.98, (n_events, n_peers, len(SHARES) + 1)).astype(np.float16),
        weight=rng.uniform(0.05, 1.0, shape) if weighted and draw(st.booleans()) else None,
    )


def decays():
    """All three decay modes."""
    return st.sampled_from(["event", "labelled", "time"])


def play(stream, state=None):
    """Decide and write every event on time; returns the state and the ticks."""
    state = state or stream.state()
    ticks = []
    for t in range(len(stream)):
        tick = state.begin_labels(stream.decide(state, t))
        state.write(stream.phis[t], stream.c[t], tick, **stream.recorded(t))
        ticks.append(tick)
    return state, ticks


def probe(rank):
    """Directions to read at."""
    return unit_rows(np.random.default_rng(rank), 3, rank)


def assert_same(a, b, atol=1e-10):
    """Two states say the same, up to the rounding of sums in another order."""
    assert a.peers == b.peers
    assert (a.clock, a.now) == (b.clock, b.now)
    for name in ("M", "N", "G", "readable"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=atol, rtol=1e-6, err_msg=name)
    if a.settings.agreement:
        one, two = (x.sums["copies"] * x.sums.factors("copies", x.now) for x in (a, b))
        np.testing.assert_allclose(one, two, atol=atol, rtol=1e-9, err_msg="copies")
    for phi in probe(a.rank):
        one, two = a.read(phi), b.read(phi)
        for name in ("score", "effective", "prob", "labels", "observations"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(two, name), atol=atol, rtol=1e-5, err_msg=name
            )
        for topics in ((TOPICS[0],), TOPICS[1:3], ("new",)):
            one, two = a.read(phi, topics=topics), b.read(phi, topics=topics)
            np.testing.assert_allclose(one.effective, two.effective, atol=atol, rtol=1e-8, err_msg="topics")
            np.testing.assert_allclose(one.prob, two.prob, atol=1e-5, err_msg="topics")
        np.testing.assert_allclose(a.readout(phi), b.readout(phi), atol=atol, rtol=1e-9)
        np.testing.assert_allclose(a.alternatives(phi), b.alternatives(phi), rtol=1e-6)


def assert_bitwise(a, b):
    """Two states hold the same bits, and say the same bits."""
    one, two = a.pack(), b.pack()
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].tobytes() == two[name].tobytes(), name
    for phi in probe(a.rank):
        for topics in ((), TOPICS[:2]):
            assert a.read(phi, topics=topics).prob.tobytes() == b.read(phi, topics=topics).prob.tobytes()
    assert a.G.tobytes() == b.G.tobytes()
