"""No label reaches a decision, and labels come when they are due."""

from dataclasses import replace

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers

from sigma_lab.bench.baselines import Beta, NearestNeighbours
from sigma_lab.bench.league import Setup, routers
from sigma_lab.bench.play import MemoryPlayer, Player, RoutePlayer, RouterPlayer, pair_ends, play
from sigma_lab.reveal import Bandit, Delayed
from sigma_mem.events import Event, FloatArray
from sigma_mem.streams import Stream

Data = tuple[Stream, FloatArray]


def poisoned(stream: Stream, place: int) -> Stream:
    """The same stream with the labels, and nothing else, of one event turned around."""
    events = list(stream.events)
    events[place] = replace(events[place], correct={p: -c for p, c in events[place].correct.items()})
    return Stream(stream.name, stream.peers, tuple(events))


@pytest.mark.parametrize("kind", ["memory", "exploring", "beta", "knn"])
def test_poisoned_labels_of_the_current_event_do_not_move_its_decision(small: Data, kind: str) -> None:
    stream, phis = small

    def player() -> Player:
        memory = Setup(seed=1).memory(stream.peers, phis.shape[1])
        made: dict[str, Player] = {
            "memory": MemoryPlayer(memory),
            "exploring": RoutePlayer(memory, explore=True),
            "beta": RouterPlayer(kind, Beta(4, 0.9), stream.peers),
            "knn": RouterPlayer(kind, NearestNeighbours(4), stream.peers),
        }
        return made[kind]

    clean = play(stream, phis, player())
    later = 0
    for place in (3, 150):
        turned = play(poisoned(stream, place), phis, player())
        for name, chosen in clean.items():
            assert np.array_equal(chosen[: place + 1], turned[name][: place + 1])
            later += int((chosen[place + 1 :] != turned[name][place + 1 :]).sum())
    assert later > 0  # afterwards it was heard: the labels do reach the memory


def test_a_player_is_shown_no_label_and_hears_it_when_it_is_due(small: Data) -> None:
    stream, phis = small
    seen: list[Event] = []
    heard: list[tuple[int, int]] = []

    class Curious:
        def decide(self, event: Event, phi: FloatArray, present: object) -> dict[str, int]:
            seen.append(event)
            return {"second": 1}

        def hear(self, place: int, labels: dict[str, float], source: str) -> None:
            heard.append((place, len(seen) - 1))
            assert set(labels) == {"peer1"}

    play(stream, phis, Curious(), Delayed(7, of=Bandit()))
    assert heard == [(place, place + 7) for place in range(len(stream) - 7)]
    assert all(not event.correct and event.reference is None for event in seen)


@pytest.mark.parametrize("explore", [False, True])
def test_a_route_chooses_among_those_present(small: Data, explore: bool) -> None:
    stream, phis = small
    partly = with_absent_peers(stream)
    memory = Setup().memory(stream.peers, phis.shape[1])
    (chosen,) = play(partly, phis, RoutePlayer(memory, explore=explore), Bandit()).values()
    assert (~np.isnan(partly.labels()))[np.arange(len(partly)), chosen].all()


def test_routers_learn_the_made_up_domains() -> None:
    stream, phis = made_up(900)
    labels, rows = stream.labels(), np.arange(900)
    accuracy = {}
    for name, router in routers(stream, phis, Setup()).items():
        chosen = play(stream, phis, RouterPlayer(name, router, stream.peers))[name]
        accuracy[name] = float((labels[rows, chosen] > 0)[300:].mean())
    assert accuracy["beta-cluster"] > 0.7
    assert accuracy["knn"] > 0.7
    assert accuracy["beta-b1"] < 0.65  # blind to the question


def paired(stream: Stream) -> Stream:
    """The same events, every two of which are one pair in both orders."""
    orders = ("ab", "ba")
    events = [replace(event, id=f"{place // 2}-{orders[place % 2]}") for place, event in enumerate(stream)]
    return Stream(stream.name, stream.peers, tuple(events))


def test_the_label_of_one_order_reaches_the_other_after_its_decision(
    small: tuple[Stream, FloatArray],
) -> None:
    stream, phis = paired(small[0]), small[1]
    heard: list[tuple[int, int]] = []

    class Clocked:
        now = -1

        def decide(self, event: Event, phi: FloatArray, present: object) -> dict[str, int]:
            self.now += 1
            return {"first": 0}

        def hear(self, place: int, labels: object, source: str) -> None:
            heard.append((place, self.now))

    play(stream, phis, Clocked())
    assert heard[:4] == [(0, 1), (1, 1), (2, 3), (3, 3)]


def test_a_pair_in_two_orders_ends_with_its_second_event() -> None:
    ids = ["a-ab", "a-ba", "b", "c-ba", "c-ab", "d-ab"]
    assert pair_ends(Stream("pairs", (), tuple(Event(id, "?", {}, {}) for id in ids))) == [1, 1, 2, 4, 4, 5]
