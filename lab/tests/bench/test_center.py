"""Rows of the tables with a center: what each row is, with scorers whose answers are known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sigma_lab.attack import counterfactual
from sigma_lab.bench.center import ROWS, BenchCenter, PosteriorWeights, judged_events
from sigma_lab.bench.experiments.cf import attacked_rows
from sigma_lab.bench.league import memory_choices
from sigma_lab.bench.row import TableRow
from sigma_lab.bench.scores import Scorer, Scores
from sigma_lab.bench.table import row_values
from sigma_mem.events import Answer, Event, FloatArray
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.streams import Stream

PEERS = ("a", "b", "c")


def stream_of(n: int = 90, seed: int = 0) -> Stream:
    """One peer per domain is right nearly always, the others seldom."""
    rng = np.random.default_rng(seed)
    events = []
    for i in range(n):
        right = [bool(rng.random() < (0.95 if p == i % 2 else 0.25)) for p in range(3)]
        answers = {p: Answer(f"{p} says {r}", str(r)) for p, r in zip(PEERS, right, strict=True)}
        labels = {p: 1.0 if r else -1.0 for p, r in zip(PEERS, right, strict=True)}
        events.append(Event(f"e{i}", f"question {i}", answers, labels, domain=f"d{i % 2}", dataset="s"))
    return Stream("s", PEERS, tuple(events))


STREAM = stream_of()
PHIS = np.eye(2)[np.arange(90) % 2]
W = np.array([10.0, 10.0])
JUDGED = judged_events(STREAM, after=30)


class Linear:
    """U = a number that depends on the text only, plus wᵀr: a center that is steered exactly linearly."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, pairs: Sequence[tuple[str, str]], readouts: FloatArray | None) -> FloatArray:
        self.asked += len(pairs)
        base = np.array([(len(q + a) * 7919 % 13) / 1000 for q, a in pairs])
        return base if readouts is None else base + readouts @ W


def center_of(scorer: Scorer, **fields: Any) -> BenchCenter:
    phi = {event.question: row for event, row in zip(STREAM, PHIS, strict=True)}
    options = {"fast": W, "gamma": Settings().gamma, "after": 30, **fields}
    return BenchCenter("linear", "made up", scorer, phi, **options)


def rows_of(stream: Stream = STREAM, **fields: Any) -> dict[str, TableRow]:
    return center_of(Linear(), **fields).judge(stream)


def test_the_memory_finds_who_is_right() -> None:
    rows = rows_of()
    assert tuple(rows) == ROWS
    assert rows["sigma"].accuracy > 0.85
    assert rows["sigma"].accuracy > rows["base"].accuracy + 0.2
    assert rows["sigma"].accuracy > rows["swapped-M"].accuracy + 0.3
    assert rows["sigma"].accuracy > rows["zero-M"].accuracy + 0.2
    np.testing.assert_array_equal(rows["fast"].chosen, rows["sigma"].chosen)  # this center is linear


def test_the_memory_alone_is_the_m_route_of_a_session() -> None:
    row = rows_of(rows=["m-route-learned"], fast=None)["m-route-learned"]
    np.testing.assert_array_equal(row.chosen, memory_choices(STREAM, PHIS)["m-route"][JUDGED])


def test_without_relations_the_posterior_takes_the_highest_utility() -> None:
    rows = rows_of(weights=PosteriorWeights(w_g=0.0))
    np.testing.assert_array_equal(rows["sigma"].chosen, rows["sigma-no-g"].chosen)
    np.testing.assert_array_equal(rows["zero-M"].chosen, rows["base"].chosen)


def test_readouts_are_those_of_the_memory_before_the_event() -> None:
    state, seen = SigmaState(PEERS, 2, Settings()), {}
    for place, (phi, c) in enumerate(zip(PHIS, STREAM.labels(), strict=True)):
        seen[place] = state.readout(phi)
        state.write(phi, c, state.begin_event())
    caught: list[FloatArray] = []

    def scorer(pairs: Sequence[tuple[str, str]], readouts: FloatArray | None) -> FloatArray:
        if readouts is not None:
            caught.append(readouts)
        return np.zeros(len(pairs))

    center_of(scorer, after=40).judge(STREAM, rows=["sigma", "swapped-M"])
    np.testing.assert_array_equal(caught[0], np.concatenate([seen[place] for place in range(40, 90)]))
    np.testing.assert_array_equal(caught[1][:3], seen[40][[2, 0, 1]])


def test_the_labels_of_the_judged_event_reach_no_choice() -> None:
    clean = rows_of()
    last = STREAM.events[-1]
    poisoned = replace(last, correct={p: -c for p, c in last.correct.items()})
    rows = rows_of(replace(STREAM, events=(*STREAM.events[:-1], poisoned)))
    for name in ROWS:
        np.testing.assert_array_equal(rows[name].chosen, clean[name].chosen)


def test_selections_and_correct_say_the_same_as_the_labels() -> None:
    row = rows_of()["sigma"]
    assert sum(row.selections.values()) == len(JUDGED) == len(row.correct)
    labels = STREAM.labels()[JUDGED]
    np.testing.assert_array_equal(row.correct, labels[np.arange(60), row.chosen] > 0)


def test_base_is_asked_once_for_all_ratios() -> None:
    scorer = Linear()
    center = center_of(Scores().scorer(scorer, "linear", None), gamma=0.99)
    rows = attacked_rows(STREAM, PHIS, (0.0, 0.5, 0.9), center=center)
    assert scorer.asked <= 60 * 3 * (1 + 3 * 2)
    assert {len(row.correct) for found in rows.values() for row in found.values()} == {60}
    want = rows_of(counterfactual(STREAM, 0.9), gamma=0.99)
    np.testing.assert_array_equal(rows[0.9]["sigma"].chosen, want["sigma"].chosen)
    gap = row_values(rows[0.0])["sigma"]["vs_base"]
    assert 0 < gap["interval"][0] <= gap["difference"] <= gap["interval"][1]


def test_samples_of_judged_events_are_nested_and_shared_by_all_ratios() -> None:
    few, more = judged_events(STREAM, after=30, limit=10), judged_events(STREAM, after=30, limit=20)
    assert set(few) < set(more)
    assert min(more) >= 30
    assert few == sorted(few) == judged_events(counterfactual(STREAM, 0.9), after=30, limit=10)
    assert judged_events(STREAM, after=30, limit=10, seed=1) != few


def test_a_peer_that_failed_is_neither_judged_nor_chosen() -> None:
    holes = replace(STREAM.events[40], answers={"b": Answer("x", "x")}, correct={"b": 1.0})
    rows = rows_of(replace(STREAM, events=(*STREAM.events[:40], holes, *STREAM.events[41:])))
    for name, row in rows.items():
        assert row.chosen is not None
        assert row.chosen[10] == PEERS.index("b"), name
