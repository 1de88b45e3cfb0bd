"""Progressive evaluation: decide, then reveal, then write, one event after the other.

A player decides on an event from what it may know at that time (φ, which peers are present, and for votes
the answers). Only afterwards `play` gets the labels from the reveal, and hands them over when they are due.
The labels of an event are out of a player's reach when it decides: it is given a copy of the event without
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.baselines import Router, best_present
from sigma_lab.bench.row import Present, present_peers
from sigma_lab.reveal import Everything, Reveal, Revealed
from sigma_mem.answers.features import prepare_answers
from sigma_mem.decide import READS, Reads
from sigma_mem.decide.read import NOBODY
from sigma_mem.events import Decision, Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import pair_of

Choices = dict[str, NDArray[np.intp]]  # mechanism → the peer chosen at every event, or NOBODY


class Player(Protocol):
    """Anything that can take part."""

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """The present peer that each of its mechanisms chooses, or `NOBODY`; the first is acted upon."""

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """Labels of the event decided at ``place``, from a source."""


def play(
    stream: Stream,
    phis: FloatArray,
    player: Player,
    reveal: Reveal | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Choices:
    """Play a stream with φ of its events, (T, rank); return what every mechanism chose at every event.

    By default all labels are revealed right after the decision; those of a pair in two orders
    (`pair_of`) after both are decided. ``progress`` is called with (done, total).
    """
    shown = reveal or Everything()
    waiting: dict[int, list[tuple[int, Revealed]]] = {}
    chosen: dict[str, list[int]] = {}
    present, ends = present_peers(stream), pair_ends(stream)
    for place, (event, phi) in enumerate(zip(stream, phis, strict=True)):
        decided = player.decide(replace(event, correct={}, reference=None), phi, present[place])
        for name, peer in decided.items():
            chosen.setdefault(name, []).append(peer)
        first = next(iter(decided.values()))
        acted = "" if first == NOBODY else stream.peers[first]
        for revealed in shown.reveal(place, event, acted):
            waiting.setdefault(max(revealed.due, ends[place]), []).append((place, revealed))
        for about, revealed in waiting.pop(place, ()):
            player.hear(about, revealed.labels, revealed.source)
        if progress is not None and (place % 64 == 63 or place + 1 == len(stream)):
            progress(place + 1, len(stream))
    return {name: np.array(peers, dtype=np.intp) for name, peers in chosen.items()}


def pair_ends(stream: Stream) -> list[int]:
    """For every event the place at which its pair (`pair_of`) ends: its own, if it is none of a pair.

    Labels of an event may be shown once the event at that place is decided.
    """
    pairs = [pair_of(event.id) for event in stream]
    ends = list(range(len(pairs)))
    for place in range(len(pairs) - 2, -1, -1):
        if pairs[place] == pairs[place + 1]:
            ends[place] = ends[place + 1]
    return ends


def _present_choice(decision: Decision, read: str, chosen: int, present: Present) -> int:
    """The peer that a read chose; if that one is absent, the present peer that it puts first.

    Only a route can choose an absent peer: m-route by φᵀMφ, the others by p̂.
    """
    if chosen == NOBODY or present[chosen] or not present.any():
        return chosen
    values = decision.scores if read == "m-route" else decision.probs
    return best_present(np.array(list(values.values())), present)


class MemoryPlayer:
    """Every read of a `SigmaMem`, and the adaptive one, which is acted upon.

    The single reads use what the adaptive decision is going to see.
    """

    def __init__(self, memory: SigmaMem, reads: Reads = READS) -> None:
        self.memory = memory
        self._reads = reads
        self._ids: list[str] = []

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`SigmaMem.decide`."""
        features = self.memory.settings.text_features
        view = self.memory.decider.view(
            phi, prepare_answers(event.question, event.answers, "auto", features), event.topics
        )
        decision = self.memory.decide(event.question, event.answers, phi=phi, topic=event.topics)
        self._ids.append(decision.id)
        found = {"adaptive": NOBODY if decision.peer is None else self.memory.peers.index(decision.peer)}
        for read in self._reads:
            if read.needs != "center":
                chosen = read.choose(view).peer
                found[read.name] = _present_choice(decision, read.name, chosen, present)
        return found

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """`SigmaMem.feedback`."""
        self.memory.feedback(self._ids[place], labels, source=source)


class RoutePlayer(MemoryPlayer):
    """The memory's own route and nothing else; it may explore, if only the chosen peer is ever labelled."""

    def __init__(self, memory: SigmaMem, *, explore: bool = False) -> None:
        super().__init__(memory)
        self._explore = explore

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`SigmaMem.route`."""
        decision = self.memory.route(phi=phi, explore=self._explore, topic=event.topics)
        self._ids.append(decision.id)
        peer = self.memory.peers.index(decision.peer or "")
        return {decision.read: _present_choice(decision, decision.read, peer, present)}


class RouterPlayer:
    """A router that does not use answers: a baseline or a rival."""

    def __init__(self, name: str, router: Router, peers: tuple[str, ...]) -> None:
        self.name, self._router, self._peers = name, router, peers
        self._decided: list[tuple[FloatArray, int]] = []

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`Router.choose`."""
        peer = self._router.choose(phi, present)
        self._decided.append((phi, peer))
        return {self.name: peer}

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """`Router.learn`."""
        phi, peer = self._decided[place]
        self._router.learn(phi, np.array([labels.get(p, np.nan) for p in self._peers]), peer)
