"""No label reaches a decision; labels come when they are due; replay equals the session."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers, without_answers

from sigma_lab.attack import counterfactual
from sigma_lab.bench.baselines import Beta, NearestNeighbours
from sigma_lab.bench.league import Setup, routers
from sigma_lab.bench.play import ExploringPlayer, MemoryPlayer, Player, RouterPlayer, play
from sigma_lab.bench.replayed import replayed
from sigma_lab.reveal import Bandit, Delayed, Share
from sigma_mem import Settings, SigmaMem
from sigma_mem.events import Event, FloatArray
from sigma_mem.streams import Stream


def memory_player(stream: Stream, phis: FloatArray) -> MemoryPlayer:
    return MemoryPlayer(SigmaMem(stream.peers, rank=phis.shape[1], keep_text=False))


def poisoned(stream: Stream, place: int) -> Stream:
    """The same stream with the labels, and nothing else, of one event turned around."""
    events = list(stream.events)
    events[place] = replace(events[place], correct={p: -c for p, c in events[place].correct.items()})
    return Stream(stream.name, stream.peers, tuple(events))


@pytest.mark.parametrize("kind", ["memory", "exploring", "beta", "knn"])
def test_poisoned_labels_of_the_current_event_do_not_move_its_decision(
    small: tuple[Stream, FloatArray], kind: str
) -> None:
    stream, phis = small

    def player() -> Player:
        if kind == "memory":
            return memory_player(stream, phis)
        if kind == "exploring":
            return ExploringPlayer(SigmaMem(stream.peers, rank=phis.shape[1], keep_text=False, seed=1))
        router = Beta(4, 0.9) if kind == "beta" else NearestNeighbours(4)
        return RouterPlayer(kind, router, stream.peers)

    clean = play(stream, phis, player())
    later = 0
    for place in (3, 40, 150):
        turned = play(poisoned(stream, place), phis, player())
        for name, chosen in clean.items():
            assert np.array_equal(chosen[: place + 1], turned[name][: place + 1])
            later += int((chosen[place + 1 :] != turned[name][place + 1 :]).sum())
    assert later > 0  # afterwards it was heard: the labels do reach the memory


def test_a_player_is_not_even_shown_the_labels(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    seen: list[Event] = []

    class Curious:
        def decide(self, event: Event, phi: FloatArray, present: object) -> dict[str, int]:
            seen.append(event)
            return {"first": 0}

        def hear(self, place: int, labels: object, source: str) -> None:
            assert len(seen) == place + 1

    play(stream, phis, Curious())
    assert all(not event.correct and event.reference is None for event in seen)


def test_labels_come_when_they_are_due(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    heard: list[tuple[int, int]] = []

    class Clocked:
        now = -1

        def decide(self, event: Event, phi: FloatArray, present: object) -> dict[str, int]:
            self.now += 1
            return {"second": 1}

        def hear(self, place: int, labels: dict[str, float], source: str) -> None:
            heard.append((place, self.now))
            assert set(labels) == {"peer1"}

    play(stream, phis, Clocked(), Delayed(7, of=Bandit()))
    assert heard == [(place, place + 7) for place in range(len(stream) - 7)]


@pytest.mark.parametrize("ratio", [0.0, 0.7])
@pytest.mark.parametrize("n_peers", [3, 6])
def test_replayed_choices_are_those_of_the_session(ratio: float, n_peers: int) -> None:
    stream, phis = made_up(300, n_peers, seed=n_peers)
    attacked = counterfactual(stream, ratio)
    settings = Settings(gamma=0.99)
    fast = replayed(attacked, phis, settings)
    with SigmaMem(stream.peers, rank=8, settings=settings, keep_text=False) as memory:
        slow = play(attacked, phis, MemoryPlayer(memory))
    assert set(fast) == set(slow)
    for name in fast:
        assert np.array_equal(fast[name], slow[name]), name


def test_replay_finds_copies_as_the_session_does() -> None:
    stream, phis = made_up(300, 4)
    weak, copies = stream.peers[1], ("copy1", "copy2", "copy3")
    events = tuple(
        replace(
            event,
            answers=event.answers | dict.fromkeys(copies, event.answers[weak]),
            correct=event.correct | dict.fromkeys(copies, event.correct[weak]),
        )
        for event in stream
    )
    copied = Stream(stream.name, (*stream.peers, *copies), events)
    reveal = Share(0.1, seed=1)
    shown = np.array([bool(reveal.reveal(t, e, "")) for t, e in enumerate(copied)])
    fast = replayed(copied, phis, shown=shown)
    player = memory_player(copied, phis)
    slow = play(copied, phis, player, reveal)
    assert player.memory.state.copying() is not None
    for name in fast:
        assert np.array_equal(fast[name], slow[name]), name


def test_replay_knows_peers_that_were_not_asked(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    events = tuple(
        replace(e, answers={p: a for p, a in e.answers.items() if (t + len(p)) % 3 or p == stream.peers[0]})
        if t % 2
        else e
        for t, e in enumerate(stream)
    )
    partly = Stream(stream.name, stream.peers, events)
    assert any(len(event.answers) < len(stream.peers) for event in partly)
    with SigmaMem(stream.peers, rank=phis.shape[1]) as memory:
        played = play(partly, phis, MemoryPlayer(memory))
    found = replayed(partly, phis)
    assert all(np.array_equal(found[name], played[name]) for name in played)


@pytest.mark.parametrize("labels_only", [False, True])
def test_replay_knows_absent_peers_and_missing_labels(
    small: tuple[Stream, FloatArray], labels_only: bool
) -> None:
    stream, phis = small
    for partly in (
        with_absent_peers(stream, labels_only=labels_only),
        with_absent_peers(without_answers(stream)),
    ):
        fast, slow = replayed(partly, phis), play(partly, phis, memory_player(partly, phis))
        for name in fast:
            assert np.array_equal(fast[name], slow[name]), name


@pytest.mark.parametrize("explore", [False, True])
def test_an_exploring_route_chooses_among_those_present(
    small: tuple[Stream, FloatArray], explore: bool
) -> None:
    stream, phis = small
    partly = with_absent_peers(stream)
    memory = SigmaMem(stream.peers, rank=phis.shape[1], keep_text=False)
    (chosen,) = play(partly, phis, ExploringPlayer(memory, explore=explore), Bandit()).values()
    assert (~np.isnan(partly.labels()))[np.arange(len(partly)), chosen].all()


def test_replay_with_a_share_of_labels_is_that_of_the_session(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = small
    reveal = Share(0.3, seed=5)
    shown = np.array([bool(reveal.reveal(t, e, "peer0")) for t, e in enumerate(stream)])
    assert 0.15 < shown.mean() < 0.45
    fast = replayed(stream, phis, shown=shown)
    slow = play(stream, phis, memory_player(stream, phis), reveal)
    for name in fast:
        assert np.array_equal(fast[name], slow[name]), name


def test_replay_equals_the_session_on_a_real_stream(real: object) -> None:
    from sigma_mem.encode.hashed import HashedEncoder
    from sigma_mem.streams import load_stream

    stream = load_stream(f"{real}/mmlu-pro.jsonl.gz").select(seed=0, limit=400)
    attacked = counterfactual(stream, 0.5)
    phis = HashedEncoder().encode([event.question for event in attacked])
    fast = replayed(attacked, phis)
    slow = play(attacked, phis, memory_player(attacked, phis))
    for name in fast:
        assert np.array_equal(fast[name], slow[name]), name


def test_routers_learn_the_made_up_domains(small: tuple[Stream, FloatArray]) -> None:
    stream, phis = made_up(900)
    labels = stream.labels()
    rows = np.arange(len(stream))
    accuracy = {}
    for name, router in routers(stream, phis, Setup()).items():
        chosen = play(stream, phis, RouterPlayer(name, router, stream.peers))[name]
        accuracy[name] = float((labels[rows, chosen] > 0)[300:].mean())
    assert accuracy["beta-cluster"] > 0.7
    assert accuracy["knn"] > 0.7
    assert accuracy["beta-b1"] < 0.65  # blind to the question
