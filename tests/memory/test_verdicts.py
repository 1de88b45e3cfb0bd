"""What judges say is weighed by how it turned out: slopes, bias, several judges, exact sums."""

from __future__ import annotations

import numpy as np
import pytest

from sigma_mem.errors import InputError
from sigma_mem.memory.sums import Sums
from sigma_mem.memory.verdicts import MOST_JUDGES, Verdicts, judged_answers, verdict_sums

PHI = np.array([0.6, 0.8])
GROUPS = np.array([0, 1, 2])


class Played:
    """A memory of verdicts that has seen events in which a judge's word had this strength."""

    def __init__(self, n_peers: int = 3, rank: int = 2) -> None:
        self.sums, self.verdicts = Sums(n_peers, verdict_sums(rank, 0.0005, 0.01)), Verdicts()
        self.tick = 0.0

    def event(
        self,
        scores: dict[str, np.ndarray],
        right: np.ndarray,
        phi: np.ndarray = PHI,
        weight: float = 1.0,
        tick: float | None = None,
    ) -> None:
        self.tick = self.tick + 1.0 if tick is None else tick
        places = np.arange(len(right))
        self.verdicts.write(
            self.sums, scores, np.arange(len(right)), phi, right - 0.4, self.tick, places, weight
        )

    def speaks(self, scores: dict[str, np.ndarray], phi: np.ndarray = PHI) -> dict[str, np.ndarray]:
        n = len(next(iter(scores.values())))
        return self.verdicts.log_odds(self.sums, scores, np.arange(n), phi, self.tick)


def stream(events: int, strength: float, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    rights = (rng.random((events, 3)) < 0.4).astype(float)
    return [(strength * right + rng.standard_normal(3), right) for right in rights]


def test_a_judge_that_knows_is_calibrated() -> None:
    played = Played()
    for u, right in stream(2000, 1.2):
        played.event({"gpt": u}, right)
    found = played.speaks({"gpt": np.array([1.0, 0.0, 0.0])})["gpt"]
    assert found[0] - found[1] == pytest.approx(1.2, abs=0.25)  # what two normal distributions say


@pytest.mark.parametrize(("scale", "shift"), [(7.0, 50.0), (1e-9, 0.0), (1e7, -1e9)])
def test_scale_and_shift_of_a_judge_do_not_matter(scale: float, shift: float) -> None:
    some, others, u = Played(), Played(), np.array([1.0, 0.3, -2.0])
    for v, right in [(u, np.zeros(3)), *stream(200, 1.0)]:
        np.testing.assert_allclose(  # also of a new judge
            some.speaks({"gpt": u})["gpt"], others.speaks({"gpt": shift + scale * u})["gpt"], atol=1e-6
        )
        some.event({"gpt": v}, right)
        others.event({"gpt": shift + scale * v}, right)


def test_equal_scores_say_nothing_whatever_rounding_leaves_of_their_differences() -> None:
    assert not Played().speaks({"gpt": np.full(3, 0.1)})["gpt"].any()


def test_a_blind_judge_hardly_speaks() -> None:
    played = Played()
    for u, right in stream(500, 0.0):
        played.event({"blind": u}, right)
    assert np.abs(played.speaks({"blind": np.array([2.0, 0.0, -2.0])})["blind"]).max() < 0.3


def test_a_judge_that_lies_is_turned_around() -> None:
    played = Played()
    for u, right in stream(400, -1.5):
        played.event({"liar": u}, right)
    found = played.speaks({"liar": np.array([1.0, 0.0, 0.0])})["liar"]
    assert found[0] < found[1]


def test_bias_towards_a_peer_is_left_out() -> None:
    played = Played()
    favour = np.array([4.0, 0.0, 0.0])
    for u, right in stream(1000, 1.2):
        played.event({"gpt": u + favour}, right)
    found = played.speaks({"gpt": favour})["gpt"]  # it says of each what it always says
    assert np.abs(found).max() < 0.25
    better = played.speaks({"gpt": favour + np.array([0.0, 1.0, 0.0])})["gpt"]
    assert better[1] - better[0] > 0.7


def test_judges_that_say_the_same_count_once() -> None:
    alone, twice = Played(), Played()
    for u, right in stream(1000, 1.2):
        alone.event({"a": u}, right)
        twice.event({"a": u, "b": u, "c": u}, right)
    u = np.array([1.0, 0.0, -1.0])
    one = alone.speaks({"a": u})["a"]
    three = sum(twice.speaks({"a": u, "b": u, "c": u}).values())
    np.testing.assert_allclose(three, one, atol=0.25)


def test_reliability_is_that_of_similar_tasks() -> None:
    played, code, law = Played(), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    for (good, right), (blind, truth) in zip(stream(1500, 1.5), stream(1500, 0.0, 1), strict=True):
        played.event({"coder": good}, right, code)
        played.event({"coder": blind}, truth, law)
    u = np.array([1.0, 0.0, 0.0])
    at_code, at_law = (played.speaks({"coder": u}, phi)["coder"] for phi in (code, law))
    assert at_code[0] - at_code[1] > 2.0 * (at_law[0] - at_law[1])


def test_a_judge_that_begins_to_lie_is_left_within_a_hundred_events() -> None:
    played = Played()
    for u, right in [*stream(1000, 1.5), *stream(100, -1.5, 1)]:
        played.event({"gpt": u}, right)
    found = played.speaks({"gpt": np.array([1.0, 0.0, 0.0])})["gpt"]
    assert found[0] - found[1] < 0.2


def test_late_and_revoked_labels_count_exactly() -> None:
    on_time, late = Played(), Played()
    events = stream(40, 1.0)
    for u, right in events:
        on_time.event({"gpt": u, "claude": -u}, right)
    late.event({"gpt": events[0][0]}, events[0][1], tick=41.0)
    late.event({"gpt": events[0][0]}, events[0][1], weight=-1.0, tick=41.0)
    for place in reversed(range(40)):
        u, right = events[place]
        late.event({"gpt": u, "claude": -u}, right, tick=place + 1.0)
    late.tick = on_time.tick
    u = {"gpt": np.array([1.0, 0.5, 0.0]), "claude": np.array([0.0, 2.0, 0.0])}
    for name, found in on_time.speaks(u).items():
        np.testing.assert_allclose(late.speaks(u)[name], found, atol=1e-8)


def test_missing_scores_say_nothing() -> None:
    played = Played()
    for u, right in stream(100, 1.5):
        played.event({"gpt": u}, right)
    assert played.speaks({"gpt": np.array([1.0, np.nan, np.nan])}) == {}
    some = played.speaks({"gpt": np.array([1.0, np.nan, 0.0])})["gpt"]
    assert some[1] == 0.0
    assert some[0] > 0.0 > some[2]


def test_a_new_judge_has_a_prior_that_labels_overrule() -> None:
    u = {"gpt": np.array([1.0, 0.0, 0.0])}
    new = Played().speaks(u)["gpt"]
    assert 0.5 < new[0] < 1.0
    np.testing.assert_allclose(Played().speaks({"gpt": 100.0 * u["gpt"]})["gpt"], new)  # on any scale
    both = Played().speaks({**u, "claude": u["gpt"]})
    np.testing.assert_allclose(both["gpt"] + both["claude"], new)  # several share it
    blind, liar = Played(), Played()
    for (u_blind, right), (u_right, right_too) in zip(stream(60, 0.0), stream(60, 1.5), strict=True):
        blind.event({"gpt": u_blind}, right)
        liar.event({"gpt": -u_right}, right_too)
    deviation = {"gpt": np.array([1.5, -0.75, -0.75])}
    assert abs(blind.speaks(deviation)["gpt"][0]) < 0.5 * new[0]
    assert liar.speaks(deviation)["gpt"][0] < 0.0


def test_equal_answers_share_what_is_said_of_them() -> None:
    z, w = judged_answers(np.array([2.0, 2.0, 0.0]), np.array([0, 0, 1]))
    assert w.tolist() == [0.5, 0.5, 1.0]
    assert z.tolist() == [1.0, 1.0, -1.0]


def test_a_merge_adds_judges_by_name() -> None:
    whole, some, others = Played(), Played(), Played()
    for place, (u, right) in enumerate(stream(60, 1.0)):
        name = "ab"[place % 2 if place < 30 else 1 - place % 2]
        whole.event({name: u}, right, tick=place + 1.0)
        part = some if place < 30 else others
        part.event({name: u}, right, tick=place + 1.0)
    some.sums.merge(some.verdicts.adopt(others.verdicts, some.sums, others.sums))
    some.tick = whole.tick
    u = {"a": np.array([1.0, 0.0, 0.0]), "b": np.array([0.0, 1.0, 0.0])}
    for name, found in whole.speaks(u).items():
        np.testing.assert_allclose(some.speaks(u)[name], found, atol=1e-8)


def test_there_is_a_most_of_judges() -> None:
    played, u = Played(), np.array([1.0, 0.0, 0.0])
    for number in range(MOST_JUDGES):
        played.event({str(number): u}, u)
    with pytest.raises(InputError, match="at most 16"):
        played.event({"one more": u}, u)
