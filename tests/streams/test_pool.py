"""What a pool is worth, against labels."""

from __future__ import annotations

import numpy as np
import pytest

from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream
from sigma_mem.streams.pool import PoolReport, pool_report

PEERS = ("twin", "copy", "good", "coin")


def verdicts(n: int = 600, orders: bool = False) -> Stream:
    """Four judges: two that are wrong as one half of the time, one right nine times in ten, one coin."""
    rng = np.random.default_rng(0)
    events = []
    for i in range(n):
        fooled = rng.random() < 0.5
        right = [not fooled, not fooled, rng.random() < 0.9, rng.random() < 0.5]
        said = {p: Answer("", "yes" if ok else "no") for p, ok in zip(PEERS, right, strict=True)}
        labels = {p: 1.0 if ok else -1.0 for p, ok in zip(PEERS, right, strict=True)}
        id = f"{i // 2}-{('ab', 'ba')[i % 2]}" if orders else str(i)
        events.append(Event(id, "?", said, labels))
    return Stream("verdicts", PEERS, tuple(events))


@pytest.fixture(scope="module")
def report() -> PoolReport:
    return pool_report(verdicts())


def test_accuracy_lies_in_its_interval(report: PoolReport) -> None:
    by_name = {line.peer: line for line in report.peers}
    assert all(line.low <= line.accuracy <= line.high for line in report.peers)
    assert by_name["good"].accuracy == report.best == pytest.approx(0.9, abs=0.04)


def test_twins_deceive_together_and_are_worth_one_vote(report: PoolReport) -> None:
    assert report.correlation[0, 1] == pytest.approx(1.0)
    assert report.deceiving[0].peers == ("twin", "copy")
    assert report.deceiving[0].together == pytest.approx(0.5, abs=0.06)
    assert report.deceiving[0].expected == pytest.approx(0.25, abs=0.06)
    assert report.effective_votes == pytest.approx(16 / 6, abs=0.3)


def test_a_joint_vote_beats_a_majority_that_is_fooled(report: PoolReport) -> None:
    assert report.joint == pytest.approx(report.best, abs=0.02)
    assert report.majority < 0.75


def test_a_copy_adds_nothing_and_the_good_one_does(report: PoolReport) -> None:
    assert {"twin", "copy", "coin"} >= set(report.redundant) >= {"copy"}
    assert next(line for line in report.peers if line.peer == "good").adds > 0.2


def test_both_orders_of_a_pair_show_who_looks_at_the_order(report: PoolReport) -> None:
    assert all(line.consistent is None for line in report.peers)
    coin = pool_report(verdicts(orders=True)).peers[3]
    assert coin.consistent == pytest.approx(0.5, abs=0.08)


def test_what_cannot_be_read_or_has_no_label_is_left_out() -> None:
    stream = verdicts(200)
    events = list(stream.events)
    for place in range(0, 200, 2):
        events[place] = Event(
            str(place), "?", {**events[place].answers, "coin": Answer("?", None)}, {"good": 1.0}
        )
    report = pool_report(Stream("partial", PEERS, tuple(events)))
    assert [line.labels for line in report.peers] == [100, 100, 200, 100]


def test_a_stream_without_labels_is_refused() -> None:
    stream = Stream("none", ("a",), (Event("e", "?", {"a": Answer("1", "1")}, {}),))
    with pytest.raises(InputError, match="no label"):
        pool_report(stream)


def test_a_pool_of_one() -> None:
    report = pool_report(verdicts().select(peers=["good"]))
    assert report.effective_votes == 1.0
    assert report.joint == report.best


def test_peers_that_never_err_together_are_worth_no_more_votes_than_there_are() -> None:
    events = []
    for i in range(100):
        right = {"a": i % 2 == 0, "b": i % 2 == 1}
        said = {peer: Answer("", "yes" if ok else "no") for peer, ok in right.items()}
        events.append(Event(str(i), "?", said, {peer: 1.0 if ok else -1.0 for peer, ok in right.items()}))
    assert pool_report(Stream("opposites", ("a", "b"), tuple(events))).effective_votes == 2.0
