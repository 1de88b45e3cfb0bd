"""The rows of a league, and what they are compared with."""

from dataclasses import replace

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers, with_fractions, without_answers

from sigma_lab.bench.league import ORACLES, Setup, league, row_names
from sigma_lab.bench.row import intervals
from sigma_lab.bench.table import row_values, standing
from sigma_lab.reveal import Share
from sigma_mem.decide import READS, Choice
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

Data = tuple[Stream, FloatArray]


def test_oracles_bound_what_can_be_chosen_and_the_best_is_named(small: Data) -> None:
    rows = league(*small)
    assert list(rows) == row_names()
    for name, row in rows.items():
        assert row.accuracy <= rows["any-right"].accuracy, name
        assert sum(row.selections.values()) == len(small[0])
    assert rows["best-fixed"].accuracy <= rows["domain-oracle"].accuracy
    best = max((n for n in rows if n not in ORACLES), key=lambda name: rows[name].accuracy)
    assert best in standing(rows)
    assert "adaptive is" in standing(rows)


def test_a_warm_start_teaches_before_the_first_event_whatever_is_shown_later() -> None:
    stream, phis = made_up(400)
    before, directions = made_up(400, seed=9)
    cold = league(stream, phis)["calibrated-route"]
    warm = league(stream, phis, Setup(warm=(before, directions)))["calibrated-route"]
    assert len(warm.correct) == len(stream)
    assert warm.correct[:60].mean() > cold.correct[:60].mean()
    hidden = league(stream, phis, Setup(warm=(before, directions)), Share(0.0))
    assert hidden["knn"].accuracy > 0.6  # it knows the warm-up, and nothing of the stream
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
    assert (i.difference_low, i.difference_high) == pytest.approx(tuple(naive), abs=0.006)
    # Paired: the difference is known far better than either accuracy.
    assert i.difference_high - i.difference_low < 0.5 * (i.high - i.low)


def test_rows_that_need_answers_are_left_out_if_there_are_none(small: Data) -> None:
    stream, phis = small
    rows = league(without_answers(stream), phis)
    assert list(rows) == row_names(answers=False)
    assert not {"majority", "m-vote", "calibrated-vote", "posterior", "posterior-no-g"} & set(rows)
    assert np.array_equal(rows["adaptive"].correct, rows["calibrated-route"].correct)
    # If there are answers, how they agree is the prior of p̂; without that the routes are the same.
    labels_only = Setup(settings=Settings(agreement=False))
    with_answers = league(stream, phis, labels_only)["calibrated-route"]
    without = league(without_answers(stream), phis, labels_only)["calibrated-route"]
    assert np.array_equal(without.correct, with_answers.correct)
    found = row_values(rows)
    assert found["best-fixed"]["vs_best-fixed"]["difference"] == 0.0
    assert not any("vs_majority" in row for row in found.values())


def test_only_a_peer_that_is_present_is_chosen(small: Data) -> None:
    stream, phis = small
    for partly in (with_absent_peers(stream), without_answers(with_absent_peers(stream))):
        there = ~np.isnan(partly.labels())
        assert 0.4 < there.mean() < 0.8
        for name, row in league(partly, phis).items():
            if row.chosen is not None:
                assert there[np.arange(len(partly)), row.chosen].all(), name


def test_fractional_labels_are_scored_by_their_value(small: Data) -> None:
    stream, phis = small
    rows, whole = league(with_fractions(stream), phis), stream.labels()
    for name, row in rows.items():
        if row.chosen is not None and name != "majority":
            right = whole[np.arange(len(stream)), row.chosen] > 0
            assert row.correct == pytest.approx(np.where(right, 0.7, 0.2)), name
    assert rows["random"].correct == pytest.approx(0.2 + 0.5 * (whole > 0).mean(axis=1))


def test_bad_rivals_are_refused(small: Data) -> None:
    with pytest.raises(InputError, match="paretobandit"):
        league(*small, Setup(rivals=("nobody",)))


def test_a_read_more_has_its_row() -> None:
    stream, phis = made_up(60)
    last = Choice(len(stream.peers) - 1, -1, np.zeros(0))
    toy = replace(READS["majority"], name="toy-vote", choose=lambda view: last)
    reads = READS.with_read(toy)
    rows = league(stream, phis, Setup(reads=reads))
    assert list(rows) == row_names(reads)
    assert set(rows) - set(row_names()) == {"toy-vote"}
    assert rows["toy-vote"].selections[stream.peers[-1]] == len(stream)
