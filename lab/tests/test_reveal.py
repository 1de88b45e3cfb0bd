import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_lab.reveal import Bandit, Delayed, Dishonest, Everything, Reveal, Revealed, Share
from sigma_mem.errors import InputError
from sigma_mem.events import Event

EVENTS = [Event(f"e{i}", "?", {}, {"a": 1.0, "b": -1.0, "c": 0.5}) for i in range(4000)]
RATE = st.floats(0, 1)


def shown(reveal: Reveal, chosen: str = "a") -> list[list[Revealed]]:
    return [reveal.reveal(i, e, chosen) for i, e in enumerate(EVENTS)]


def test_everything_is_every_label_at_once() -> None:
    assert Everything().reveal(3, EVENTS[0], "b") == [Revealed(3, {"a": 1.0, "b": -1.0, "c": 0.5}, "stream")]
    assert Everything().reveal(3, Event("e", "?", {}, {}), "b") == []


def test_a_share_of_events() -> None:
    for rate in (0.05, 0.2, 1.0):
        assert abs(sum(map(bool, shown(Share(rate)))) / len(EVENTS) - rate) < 0.02
    assert not any(shown(Share(0.0)))
    assert shown(Share(0.3, seed=0)) != shown(Share(0.3, seed=1))


@given(low=RATE, high=RATE, seed=st.integers(0, 9))
def test_shares_are_nested(low: float, high: float, seed: int) -> None:
    low, high = sorted((low, high))
    for event in EVENTS[:100]:
        if Share(low, seed).reveal(0, event, "a"):
            assert Share(high, seed).reveal(0, event, "a")


def test_both_orders_of_a_pair_are_shown_or_neither() -> None:
    for i in range(200):
        one, other = (Event(f"{i}-{order}", "?", {}, {"a": 1.0}) for order in ("ab", "ba"))
        assert bool(Share(0.5).reveal(0, one, "a")) == bool(Share(0.5).reveal(1, other, "a"))


def test_bandit_shows_the_chosen_peer_only() -> None:
    assert Bandit().reveal(0, EVENTS[0], "c") == [Revealed(0, {"c": 0.5})]
    assert Bandit().reveal(0, EVENTS[0], "unlabelled") == []


def test_delay_moves_the_due_index() -> None:
    assert [r[0].due for r in shown(Delayed(7))[:3]] == [7, 8, 9]
    assert Delayed(2, of=Delayed(3)).reveal(1, EVENTS[0], "a")[0].due == 6


def test_a_dishonest_source_signs_its_lies() -> None:
    lies = [r for (r,) in shown(Dishonest(0.2, source="x")) if r.source == "x"]
    assert abs(len(lies) / len(EVENTS) - 0.2) < 0.02
    assert all(r.labels == {"a": -1.0, "b": 1.0, "c": -0.5} for r in lies)
    rest = [r for (r,) in shown(Dishonest(0.2, source="x")) if r.source != "x"]
    assert all(r.labels == EVENTS[0].correct for r in rest)


def test_conditions_compose() -> None:
    reveal = Delayed(5, of=Bandit(Dishonest(1.0, source="x", of=Share(0.5))))
    seen = [r for r in shown(reveal, "b") if r]
    assert abs(len(seen) / len(EVENTS) - 0.5) < 0.03
    assert all(r.labels == {"b": 1.0} and r.source == "x" for (r,) in seen)


@given(index=st.integers(0, 50), rate=RATE, seed=st.integers(0, 5))
def test_draws_depend_on_the_event_not_on_its_place(index: int, rate: float, seed: int) -> None:
    reveal = Dishonest(rate, seed=seed, of=Share(rate, seed))
    for event in EVENTS[:20]:
        labels = [[r.labels for r in reveal.reveal(i, event, "a")] for i in (0, index)]
        assert labels[0] == labels[1]


def test_labels_of_the_event_are_never_handed_out_to_be_changed() -> None:
    event = Event("e", "?", {}, {"a": 1.0})
    (seen,) = Everything().reveal(0, event, "a")
    assert seen.labels is not event.correct


@pytest.mark.parametrize("make", [Share, Dishonest])
@pytest.mark.parametrize("rate", [-0.1, 20.0, float("nan")])
def test_bad_rates(make: type[Share] | type[Dishonest], rate: float) -> None:
    with pytest.raises(InputError, match=r"expected a number in \[0, 1\]"):
        make(rate)


def test_bad_delay() -> None:
    with pytest.raises(InputError, match="got a delay of -1"):
        Delayed(-1)
