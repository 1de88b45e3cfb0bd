"""Progressive evaluation: decide, then reveal, then write, one event after the other.

A player decides on an event from what it may know then (φ, and for votes the answers); only
afterwards `play` asks the reveal which labels are shown, and hands them over when they are due.
The labels of an event are out of a player's reach when it decides: it is given a copy of the event
without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sigma_mem.bench.baselines.base import Router
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Everything, Reveal, Revealed, Stream

__all__ = ["Choices", "ExploringPlayer", "MemoryPlayer", "Player", "RouterPlayer", "play"]

Choices = dict[str, NDArray[np.intp]]  # mechanism → the peer chosen at every event


class Player(Protocol):
    """Anything that can take part."""

    def decide(self, event: Event, phi: FloatArray) -> Mapping[str, int]:
        """The peer that each of its mechanisms chooses; the first one is acted upon."""
        ...

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """Labels of the event decided at ``place``, from a source."""
        ...


def play(
    stream: Stream,
    phis: FloatArray,
    player: Player,
    reveal: Reveal | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Choices:
    """Play a stream; return what every mechanism chose at every event.

    Parameters
    ----------
    phis : array (T, rank)
        φ of every event.
    reveal : Reveal
        Which labels are shown, and when; by default all of them right after the decision.
    progress : callable of (done, total)
    """
    shown = reveal or Everything()
    waiting: dict[int, list[tuple[int, Revealed]]] = {}
    chosen: dict[str, list[int]] = {}
    for place, (event, phi) in enumerate(zip(stream, phis, strict=True)):
        decided = player.decide(replace(event, correct={}, reference=None), phi)
        for name, peer in decided.items():
            chosen.setdefault(name, []).append(peer)
        acted = stream.peers[next(iter(decided.values()))]
        for revealed in shown.reveal(place, event, acted):
            waiting.setdefault(revealed.due, []).append((place, revealed))
        for about, revealed in waiting.pop(place, ()):
            player.hear(about, revealed.labels, revealed.source)
        if progress is not None and (place % 64 == 63 or place + 1 == len(stream)):
            progress(place + 1, len(stream))
    return {name: np.array(peers, dtype=np.intp) for name, peers in chosen.items()}


class MemoryPlayer:
    """Every read of a `SigmaMem`, and the adaptive one, which is acted upon.

    One pass gives all of them: what a read would have chosen is part of the adaptive decision.
    """

    def __init__(self, memory: SigmaMem) -> None:
        self.memory = memory
        self._ids: list[str] = []

    def decide(self, event: Event, phi: FloatArray) -> Mapping[str, int]:
        """`SigmaMem.decide`."""
        decision = self.memory.decide(event.question, event.answers, phi=phi)
        self._ids.append(decision.id)
        index = self.memory.peers.index
        return {
            "adaptive": index(decision.peer),
            **{read: index(peer) for read, peer in decision.reads.items()},
        }

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """`SigmaMem.feedback`."""
        self.memory.feedback(self._ids[place], labels, source=source)


class ExploringPlayer:
    """The memory's own exploring route: for streams where only the chosen peer is ever labelled."""

    def __init__(self, memory: SigmaMem, *, explore: bool = True) -> None:
        self.memory = memory
        self._explore = explore
        self._ids: list[str] = []

    def decide(self, event: Event, phi: FloatArray) -> Mapping[str, int]:
        """`SigmaMem.route`, exploring."""
        decision = self.memory.route(phi=phi, explore=self._explore)
        self._ids.append(decision.id)
        name = "exploring-route" if self._explore else "calibrated-route"
        return {name: self.memory.peers.index(decision.peer)}

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """`SigmaMem.feedback`."""
        self.memory.feedback(self._ids[place], labels, source=source)


class RouterPlayer:
    """A response-blind router: a baseline or a rival."""

    def __init__(self, name: str, router: Router, peers: tuple[str, ...]) -> None:
        self.name = name
        self._router = router
        self._peers = peers
        self._decided: list[tuple[FloatArray, int]] = []

    def decide(self, event: Event, phi: FloatArray) -> Mapping[str, int]:
        """`Router.choose`."""
        peer = self._router.choose(phi)
        self._decided.append((phi, peer))
        return {self.name: peer}

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """`Router.learn`."""
        phi, peer = self._decided[place]
        c = np.array([labels.get(p, np.nan) for p in self._peers])
        self._router.learn(phi, c, peer)
