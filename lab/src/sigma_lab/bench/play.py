"""Progressive evaluation: decide, then reveal, then write, one event after the other.

A player decides on an event from what it may know then (φ, who is present, and for votes the answers); only
afterwards `play` asks the reveal which labels are shown, and hands them over when they are due. The labels of
an event are out of a player's reach when it decides: it is given a copy of the event without them.
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
from sigma_mem.decide import READS, Reads
from sigma_mem.decide.read import NOBODY
from sigma_mem.events import Decision, Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

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
    (`Stream.pair_ends`) after both are decided. ``progress`` is told (done, total).
    """
    shown = reveal or Everything()
    waiting: dict[int, list[tuple[int, Revealed]]] = {}
    chosen: dict[str, list[int]] = {}
    present, ends = present_peers(stream), stream.pair_ends().tolist()
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

    One pass gives all of them: what a read would have chosen is part of the adaptive decision.
    """

    def __init__(self, memory: SigmaMem, reads: Reads = READS) -> None:
        self.memory = memory
        self.silenced: set[str] = set()  # sources that are not heard
        self._reads = reads
        self._ids: list[str] = []

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`SigmaMem.decide`."""
        decision = self.memory.decide(event.question, event.answers, phi=phi, topic=event.topics)
        self._ids.append(decision.id)
        found = {read.name: NOBODY for read in self._reads if read.needs != "center"}
        for name, peer in decision.reads.items():
            found[name] = _present_choice(decision, name, self.memory.peers.index(peer), present)
        chosen = NOBODY if decision.peer is None else found[decision.read.removeprefix("adaptive:")]
        return {"adaptive": chosen, **found}

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """`SigmaMem.feedback`."""
        if source not in self.silenced:
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
    """A router that does not look at answers: a baseline or a rival."""

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
