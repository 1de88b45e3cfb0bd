from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

from .strategies import streams


def tiny(count: int = 6) -> Stream:
    def event(i: int) -> Event:
        answers = {"a": Answer(f"t{i}", str(i)), "b": Answer("u", None)}
        return Event(f"e{i}", "?", answers, {"a": 1.0}, domain="xy"[i % 2], dataset="d")

    return Stream("tiny", ("a", "b"), tuple(event(i) for i in range(count)))


def test_arrays_follow_the_order_of_peers() -> None:
    stream = tiny(2).select(peers=["b", "a"])
    np.testing.assert_array_equal(stream.labels(), [[np.nan, 1.0], [np.nan, 1.0]])
    assert stream.canons() == [[None, "0"], [None, "1"]]
    assert tiny(0).labels().shape == (0, 2)


def test_domains_then_order_then_limit() -> None:
    chosen = tiny().select(domains=["y"], seed=3, limit=2)
    whole = tiny().select(domains=["y"], seed=3)
    assert chosen.events == whole.events[:2]
    assert {e.domain for e in whole} == {"y"}
    assert len(whole) == 3


def test_seed_shuffles_and_none_keeps_the_order() -> None:
    stream = tiny(50)
    assert stream.select().events == stream.events
    orders = [[e.id for e in stream.select(seed=s)] for s in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(e.id for e in stream)
    assert orders[0] != [e.id for e in stream]


@given(stream=streams(), seed=st.integers(0, 5), data=st.data())
def test_a_selection_keeps_the_relative_order(stream: Stream, seed: int, data: st.DataObject) -> None:
    some = st.lists(st.sampled_from(stream.domains or ("",)), max_size=2)
    part = stream.select(domains=data.draw(some) if len(stream) else None, seed=seed)
    kept = {e.id for e in part}
    assert [e.id for e in part] == [e.id for e in stream.select(seed=seed) if e.id in kept]


@given(stream=streams(min_events=1))
def test_the_order_of_the_file_plays_no_part_in_a_shuffle(stream: Stream) -> None:
    backwards = Stream(stream.name, stream.peers, stream.events[::-1])
    assert backwards.select(seed=1).events == stream.select(seed=1).events


def test_both_orders_of_a_pair_stay_together() -> None:
    ids = ["c", *(f"{i}-{order}" for order in ("ab", "ba") for i in range(20))]
    answers = {"a": Answer("1", "1")}
    stream = Stream("pairs", ("a",), tuple(Event(id, "?", answers, {}) for id in ids)).select(seed=3)
    places = {event.id: place for place, event in enumerate(stream)}
    assert all(places[f"{i}-ba"] == places[f"{i}-ab"] + 1 for i in range(20))
    assert [event.id for event in stream] != sorted(ids)


def test_events_without_a_chosen_peer_are_dropped() -> None:
    only_b = Event("z", "?", {"b": Answer("u", "u")}, {})
    stream = Stream("s", ("a", "b"), (*tiny(2).events, only_b))
    assert [e.id for e in stream.select(peers=["a"])] == ["e0", "e1"]


def test_hash_follows_content_not_name() -> None:
    stream = tiny()
    assert stream.sha256 == Stream("other", stream.peers, stream.events).sha256
    others = [stream.select(**choice) for choice in ({"peers": ["b", "a"]}, {"seed": 1}, {"limit": 5})]
    others.append(Stream("tiny", ("a", "b", "c"), stream.events))
    assert len({stream.sha256, *(o.sha256 for o in others)}) == 5


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"peers": ["a", "a"]}, "each once"),
        ({"peers": []}, "expected at least one"),
        ({"peers": "a"}, "expected a list"),
        ({"domains": ["z"]}, "no domain 'z' in this stream; it has x, y"),
        ({"datasets": ["z"]}, "no dataset 'z'"),
        ({"domains": "x"}, "expected a list"),
        ({"limit": -1}, "got limit -1"),
    ],
)
def test_bad_choices(choice: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        tiny().select(**choice)  # type: ignore[arg-type]


def test_known_draws_never_change() -> None:
    assert [round(chance(s, "order", "a"), 6) for s in (0, 1)] == [0.410092, 0.548747]


def test_draws_are_uniform_and_seeds_are_unrelated() -> None:
    a = np.array([chance(0, str(i)) for i in range(20_000)])
    b = np.array([chance(1, str(i)) for i in range(20_000)])
    counts = np.histogram(a, bins=20, range=(0, 1))[0]
    assert np.sum((counts - 1000) ** 2 / 1000) < 44  # χ², 19 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03


def test_keys_of_a_draw_do_not_run_together() -> None:
    assert chance(0, "ab", "c") != chance(0, "a", "bc")
