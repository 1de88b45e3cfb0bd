"""The table's rows, intervals and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers, with_fractions, without_answers

from sigma_lab.bench.bootstrap import intervals
from sigma_lab.bench.experiments.cf import counterfactual_table
from sigma_lab.bench.experiments.drift import drift_table
from sigma_lab.bench.experiments.feedback import feedback_table
from sigma_lab.bench.experiments.mechanisms import mechanism_table
from sigma_lab.bench.league import ORACLES, Setup, league, row_names
from sigma_lab.bench.table import standing
from sigma_mem.decide import READS, Choice
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream


def test_the_table_has_the_agreed_shape(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    values = counterfactual_table(stream, phis, ratios=(0.0, 0.5)).values()
    assert values["stream"] == "made-up"
    assert values["events"] == len(stream)
    assert values["peers"] == list(stream.peers)
    assert list(values["ratios"]) == ["0", "0.5"]
    for rows in values["ratios"].values():
        assert list(rows) == row_names()
        for row in rows.values():
            assert 0.0 <= row["accuracy"] <= 1.0
            assert list(row["selections"]) == list(stream.peers)
            assert sum(row["selections"].values()) == len(stream)
            assert row["interval"][0] <= row["accuracy"] <= row["interval"][1]


def test_oracles_bound_what_can_be_chosen(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    rows = league(stream, phis)
    for name, row in rows.items():
        assert row.accuracy <= rows["any-right"].accuracy, name
    assert rows["best-fixed"].accuracy <= rows["domain-oracle"].accuracy


def test_session_and_replay_give_the_same_table(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    fast, slow = league(stream, phis), league(stream, phis, Setup(session=True))
    for name in row_names():
        assert np.array_equal(fast[name].correct, slow[name].correct), name


def test_a_warm_start_teaches_before_the_first_event() -> None:
    stream, phis = made_up(400)
    before, directions = made_up(400, seed=9)
    cold = league(stream, phis)["calibrated-route"]
    warm = league(stream, phis, Setup(warm=(before, directions)))["calibrated-route"]
    assert len(warm.correct) == len(stream)
    assert warm.correct[:60].mean() > cold.correct[:60].mean()
    other = Stream(before.name, tuple(reversed(before.peers)), before.events)
    with pytest.raises(InputError, match="--peers"):
        league(stream, phis, Setup(warm=(other, directions)))


def test_bootstrap_matches_a_naive_one_and_pairs_events() -> None:
    rng = np.random.default_rng(0)
    base = (rng.random(400) < 0.5).astype(float)
    better = np.maximum(base, (rng.random(400) < 0.1).astype(float))
    found = intervals({"base": base, "better": better}, "base", resamples=2000)
    draws = rng.integers(400, size=(2000, 400))
    naive = np.quantile((better - base)[draws].mean(axis=1), [0.025, 0.975])
    i = found["better"]
    assert i.difference == pytest.approx(better.mean() - base.mean())
    assert i.difference_low == pytest.approx(naive[0], abs=0.006)
    assert i.difference_high == pytest.approx(naive[1], abs=0.006)
    # Paired: the difference is known far better than either accuracy.
    assert i.difference_high - i.difference_low < 0.5 * (i.high - i.low)


def test_the_report_says_who_is_on_top(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    rows = league(stream, phis)
    fair = [n for n in row_names() if n not in ORACLES]
    best = max(fair, key=lambda name: rows[name].accuracy)
    assert best in standing(rows)
    assert "adaptive is" in standing(rows)


def test_rows_that_need_answers_are_left_out_where_there_are_none(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    table = counterfactual_table(without_answers(stream), phis, ratios=(0.0,))
    rows = table.ratios[0.0]
    assert list(rows) == row_names(answers=False)
    assert not {"majority", "m-vote", "calibrated-vote", "posterior", "posterior-no-g"} & set(rows)
    assert np.array_equal(rows["adaptive"].correct, rows["calibrated-route"].correct)
    # Where there are answers, how they agree is the prior of p̂; without that the routes are the same.
    labels_only = Setup(settings=Settings(agreement=False))
    with_answers = league(stream, phis, labels_only)["calibrated-route"]
    without = league(without_answers(stream), phis, labels_only)["calibrated-route"]
    assert np.array_equal(without.correct, with_answers.correct)
    found = table.values()["ratios"]["0"]
    assert found["best-fixed"]["vs_best-fixed"]["difference"] == 0.0
    assert not any("vs_majority" in row for row in found.values())
    mechanism_table(table).grid()


@pytest.mark.parametrize("session", [False, True])
def test_only_a_peer_that_is_present_is_chosen(small: tuple[Stream, FloatArray], session: bool) -> None:
    stream, phis = small
    for partly in (with_absent_peers(stream), without_answers(with_absent_peers(stream))):
        there = ~np.isnan(partly.labels())
        assert 0.4 < there.mean() < 0.8
        for name, row in league(partly, phis, Setup(session=session)).items():
            if row.chosen is not None:
                assert there[np.arange(len(partly)), row.chosen].all(), name


def test_fractional_labels_are_scored_by_their_value(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    rows = league(with_fractions(stream), phis)
    whole = stream.labels()
    for name, row in rows.items():
        if row.chosen is not None and name != "majority":
            right = whole[np.arange(len(stream)), row.chosen] > 0
            assert row.correct == pytest.approx(np.where(right, 0.7, 0.2)), name
    assert rows["random"].correct == pytest.approx(0.2 + 0.5 * (whole > 0).mean(axis=1))


def test_majority_does_not_depend_on_the_order_of_peers(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    turned = Stream(stream.name, stream.peers[::-1], stream.events)
    ahead, behind = league(stream, phis)["majority"], league(turned, phis)["majority"]
    assert ahead.correct == pytest.approx(behind.correct)
    assert ahead.selections != behind.selections  # who speaks for a tie is still the one listed first


def test_bad_rivals_are_refused(small: tuple[Stream, FloatArray]) -> None:
    with pytest.raises(InputError, match="paretobandit"):
        league(*small, Setup(rivals=("nobody",)))


def test_a_read_more_has_its_row_in_every_experiment() -> None:
    stream, phis = made_up(60)
    last = Choice(len(stream.peers) - 1, -1, np.zeros(0))
    toy = replace(READS["majority"], name="toy-vote", choose=lambda view: last, row=99)
    hidden = replace(toy, name="hidden-vote", row=None)
    reads = READS.with_read(toy).with_read(hidden)
    for session in (False, True):
        rows = league(stream, phis, Setup(session=session, reads=reads))
        assert list(rows) == row_names(reads)
        assert set(rows) - set(row_names()) == {"toy-vote"}
        assert rows["toy-vote"].selections[stream.peers[-1]] == len(stream)
    drift = drift_table(stream, phis, ("none", "delayed"), Setup(reads=reads), size=len(stream.peers))
    assert all("toy-vote" in condition.accuracy for condition in drift.conditions.values())
    feedback = feedback_table(stream, phis, (1.0,), (0,), Setup(reads=reads))
    assert "toy-vote" in feedback.accuracy[1.0]
    assert "hidden-vote" not in {**feedback.accuracy[1.0], **drift.conditions["none"].accuracy}
