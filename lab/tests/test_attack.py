from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_lab.attack import PARTNERS, attack_plan, counterfactual
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream
from streams.strategies import streams

RATIOS = st.floats(0, 1)


def event(i: int, right: str, peers: str = "abc", dataset: str = "d", domain: str = "") -> Event:
    """Peers whose letter is in ``right`` are right."""
    answers = {p: Answer(f"text {p}{i}", f"{p}{i}") for p in peers}
    return Event(f"e{i}", "?", answers, {p: 1.0 if p in right else -1.0 for p in peers}, domain, dataset)


def changed(before: Stream, after: Stream) -> dict[str, tuple[str, str]]:
    """Which events differ, and the two peers whose answers were exchanged."""
    pairs = {}
    for old, new in zip(before, after, strict=True):
        peers = [
            p
            for p in old.answers
            if (old.answers[p], old.correct.get(p)) != (new.answers[p], new.correct.get(p))
        ]
        if peers:
            pairs[old.id] = (peers[0], peers[1])
    return pairs


def test_swaps_the_whole_response_and_label_and_nothing_else() -> None:
    clean = Stream("s", ("a", "b"), (event(0, "a", "ab", domain="x"),))
    (new,) = counterfactual(clean, 1.0).events
    (old,) = clean.events
    assert new.answers == {"a": old.answers["b"], "b": old.answers["a"]}
    assert new.correct == {"a": -1.0, "b": 1.0}
    assert (new.id, new.question, new.domain, new.dataset) == (old.id, old.question, old.domain, old.dataset)


def test_only_events_where_the_strong_peer_is_right_and_another_wrong() -> None:
    stream = Stream(
        "s", ("a", "b"), tuple(event(i, r, "ab") for i, r in enumerate(["a", "a", "ab", "b", ""]))
    )
    assert set(changed(stream, counterfactual(stream, 1.0))) == {"e0", "e1"}


def test_the_strong_peer_is_found_within_each_unit() -> None:
    events = [event(i, "b", dataset="first") for i in range(4)] + [
        event(i, "c", dataset="second") for i in (4, 5)
    ]
    plan = attack_plan(Stream("s", ("a", "b", "c"), tuple(events)))
    assert [(a.unit, a.strong, len(a.eligible)) for a in plan] == [("first", "b", 4), ("second", "c", 2)]


def test_the_unit_is_a_domain_if_there_is_one_dataset() -> None:
    events = (event(0, "a", domain="x"), event(1, "b", domain="y"))
    stream = Stream("s", ("a", "b", "c"), events)
    assert [a.unit for a in attack_plan(stream)] == ["x", "y"]
    two = Stream("s", ("a", "b", "c"), (*events, event(2, "b", dataset="d2", domain="y")))
    assert [a.unit for a in attack_plan(two)] == ["d", "d2"]


def test_ties_go_to_the_peer_listed_first() -> None:
    events = (event(0, "a"), event(1, "b"))
    assert attack_plan(Stream("s", ("a", "b", "c"), events))[0].strong == "a"
    assert attack_plan(Stream("s", ("b", "a", "c"), events))[0].strong == "b"


def test_unlabelled_peers_are_neither_strong_nor_swapped_with() -> None:
    answers = {p: Answer(p, p) for p in "abc"}
    events = tuple(Event(f"e{i}", "?", answers, {"b": 1.0}) for i in range(3))
    stream = Stream("s", ("a", "b", "c"), events)
    assert attack_plan(stream)[0].strong == "b"
    assert counterfactual(stream, 1.0) == stream


def test_the_ratio_counts_within_each_unit() -> None:
    events = [event(i, "a", dataset="first") for i in range(10)] + [
        event(i, "b", dataset="second") for i in range(10, 30)
    ]
    stream = Stream("s", ("a", "b", "c"), tuple(events))
    swapped = changed(stream, counterfactual(stream, 0.7))
    assert Counter(int(e[1:]) < 10 for e in swapped) == {True: 7, False: 14}


def test_every_wrong_peer_is_drawn_about_as_often() -> None:
    stream = Stream("s", ("a", "b", "c"), tuple(event(i, "a") for i in range(2000)))
    drawn = Counter(weak for _, weak in attack_plan(stream)[0].eligible)
    assert drawn["b"] + drawn["c"] == 2000
    assert abs(drawn["b"] - 1000) < 100


def test_the_events_are_drawn_by_seed() -> None:
    stream = Stream("s", ("a", "b"), tuple(event(i, "a", "ab") for i in range(40)))
    drawn = [set(changed(stream, counterfactual(stream, 0.5, seed=seed))) for seed in (0, 1)]
    assert len(drawn[0]) == len(drawn[1]) == 20
    assert drawn[0] != drawn[1]


@given(stream=streams(), seed=st.integers())
def test_cf_0_is_the_identity(stream: Stream, seed: int) -> None:
    assert counterfactual(stream, 0.0, seed=seed) == stream


@given(stream=streams(), ratio=RATIOS, seed=st.integers(0, 3))
def test_every_event_keeps_its_responses_and_labels(stream: Stream, ratio: float, seed: int) -> None:
    for old, new in zip(stream, counterfactual(stream, ratio, seed=seed), strict=True):
        held = [Counter((a, e.correct.get(p)) for p, a in e.answers.items()) for e in (old, new)]
        assert held[0] == held[1]
        assert list(old.answers) == list(new.answers)
        assert (old.id, old.question, old.reference) == (new.id, new.question, new.reference)


@given(stream=streams(), low=RATIOS, high=RATIOS, seed=st.integers(0, 3))
def test_attacks_are_nested(stream: Stream, low: float, high: float, seed: int) -> None:
    low, high = sorted((low, high))
    for attack in attack_plan(stream, seed=seed):
        some, more = attack.swapped(low), attack.swapped(high)
        assert more[: len(some)] == some
        assert attack.swapped(1.0) == attack.eligible


@given(stream=streams(), ratio=RATIOS, seed=st.integers(0, 3))
def test_deterministic_and_indifferent_to_order(stream: Stream, ratio: float, seed: int) -> None:
    attacked = counterfactual(stream, ratio, seed=seed)
    assert counterfactual(stream, ratio, seed=seed) == attacked
    assert counterfactual(stream.select(seed=9), ratio, seed=seed) == attacked.select(seed=9)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, 50, float("nan")])
def test_bad_ratio(ratio: float) -> None:
    with pytest.raises(InputError, match=r"expected a number in \[0, 1\]"):
        counterfactual(Stream("s", ("a",), ()), ratio)


def test_on_mmlu_pro_the_pool_keeps_its_accuracy_and_the_leaders_fall(mmlu_pro: Stream) -> None:
    clean = mmlu_pro.select(peers=["mathstral-7B", "Phi-3-mini-4k-instruct", "c4ai-command-r-v01"], seed=0)
    attacked = counterfactual(clean, 0.9)
    before, after = (s.labels() for s in (clean, attacked))
    assert (before > 0).sum() == (after > 0).sum()
    math = [i for i, e in enumerate(clean) if e.domain == "math"]
    assert (before[math] > 0).mean(0).argmax() == 0  # mathstral leads on clean math …
    assert (after[math] > 0).mean(0).argmin() == 0  # … and trails at CF@90


def test_the_partner_is_drawn_the_weakest_or_the_last_of_those_that_are_wrong() -> None:
    # c is right most often, then b, then d, then a; at the last event all but c are wrong.
    right = {"a": 1, "b": 3, "c": 5, "d": 2}
    events = []
    for t in range(6):
        labels = {p: 1.0 if t < n else -1.0 for p, n in right.items()} | ({"c": 1.0} if t == 5 else {})
        answers = {p: Answer(p, p) for p in right}
        events.append(Event(f"e{t}", "?", answers, labels, dataset="x"))
    stream = Stream("s", tuple(right), tuple(events))
    found = {}
    for partner in PARTNERS:
        (plan,) = attack_plan(stream, partner=partner)
        assert plan.strong == "c"
        found[partner] = dict(plan.eligible)["e5"]
        assert dict(plan.eligible).keys() == {f"e{t}" for t in range(1, 6)}
    assert (found["weakest"], found["last"]) == ("a", "d")
    drawn = {dict(attack_plan(stream, seed=s)[0].eligible)["e5"] for s in range(30)}
    assert drawn == {"a", "b", "d"}
    with pytest.raises(InputError, match="random, weakest, last"):
        counterfactual(stream, 0.5, partner="first")  # type: ignore[arg-type]
