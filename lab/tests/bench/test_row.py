"""Rows of a table: what counts as right, who can be chosen, and what a tie is worth."""

from itertools import permutations

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers, with_fractions

from sigma_lab.bench.row import majority_correct, present_peers, row_of
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream


def event(canons: dict[str, str | None], right: str) -> Event:
    answers = {p: Answer(str(canon), canon) for p, canon in canons.items()}
    return Event("e", "?", answers, {p: 1.0 if canon == right else -1.0 for p, canon in canons.items()})


@pytest.mark.parametrize(
    ("canons", "worth"),
    [
        ({"a": "7", "b": "7", "c": "8"}, 1.0),
        ({"a": "8", "b": "7", "c": "8"}, 0.0),
        ({"a": "7", "b": "8", "c": "9"}, 1 / 3),
        ({"a": "7", "b": "8", "c": None}, 1 / 2),
        ({"a": None, "b": None, "c": "7"}, 1.0),
        ({"a": None, "b": None, "c": None}, 0.0),
    ],
)
def test_tied_answers_share_a_majority_whatever_the_order_of_peers(
    canons: dict[str, str | None], worth: float
) -> None:
    for peers in permutations(canons):
        stream = Stream("tiny", peers, (event(canons, "7"),))
        assert majority_correct(stream) == pytest.approx([worth])


def test_majority_matches_a_naive_count_and_does_not_depend_on_the_order_of_peers() -> None:
    stream, _ = made_up(200, 5)
    naive = []
    for e in stream:
        said = [a.canon for a in e.answers.values() if a.canon is not None]
        most = max((said.count(canon) for canon in said), default=0)
        tied = {canon for canon in said if said.count(canon) == most}
        naive.append(float("ok" in tied) / len(tied) if tied else 0.0)
    assert majority_correct(stream) == pytest.approx(naive)
    turned = Stream(stream.name, stream.peers[::-1], stream.events)
    assert majority_correct(turned) == pytest.approx(naive)


def test_majority_counts_labels_by_their_value_and_skips_missing_ones() -> None:
    stream, _ = made_up(60)
    whole, parts = majority_correct(stream), majority_correct(with_fractions(stream))
    readable = [any(a.canon for a in e.answers.values()) for e in stream]
    assert parts == pytest.approx(np.where(readable, 0.2 + 0.5 * whole, 0.0))
    unlabelled = Event("e", "?", {"a": Answer("7", "7"), "b": Answer("7", "7")}, {"b": 1.0})
    assert majority_correct(Stream("tiny", ("a", "b"), (unlabelled,))).tolist() == [1.0]


def test_a_peer_is_present_with_an_answer_or_a_label() -> None:
    e = Event("e", "?", {"a": Answer("7", "7")}, {"b": 1.0})
    assert present_peers(Stream("tiny", ("a", "b", "c"), (e,))).tolist() == [[True, True, False]]
    absent = with_absent_peers(made_up(80)[0])
    assert np.array_equal(present_peers(absent), ~np.isnan(absent.labels()))


def test_a_row_of_some_events_counts_its_selections_again() -> None:
    row = row_of(np.array([0, 1, 1, 2]), np.array([1.0, 0.0, 0.5, 1.0]), ("a", "b", "c"))
    part = row.at([1, 2])
    assert (part.accuracy, part.selections) == (0.25, {"a": 0, "b": 2, "c": 0})
    random = row_of(None, np.full(5, 0.5), ("a", "b", "c"))
    assert random.selections == {"a": 2, "b": 2, "c": 1}
    assert random.at([0]).selections == {"a": 1, "b": 0, "c": 0}
