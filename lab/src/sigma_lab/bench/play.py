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
from sigma_mem.decide import READS, Read, Reads, View
from sigma_mem.decide.read import NOBODY
from sigma_mem.events import Event, FloatArray
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

    By default all labels are revealed right after the decision. ``progress`` is told (done, total).
    """
    shown = reveal or Everything()
    waiting: dict[int, list[tuple[int, Revealed]]] = {}
    chosen: dict[str, list[int]] = {}
    present = present_peers(stream)
    for place, (event, phi) in enumerate(zip(stream, phis, strict=True)):
        decided = player.decide(replace(event, correct={}, reference=None), phi, present[place])
        for name, peer in decided.items():
            chosen.setdefault(name, []).append(peer)
        first = next(iter(decided.values()))
        acted = "" if first == NOBODY else stream.peers[first]
        for revealed in shown.reveal(place, event, acted):
            waiting.setdefault(revealed.due, []).append((place, revealed))
        for about, revealed in waiting.pop(place, ()):
            player.hear(about, revealed.labels, revealed.source)
        if progress is not None and (place % 64 == 63 or place + 1 == len(stream)):
            progress(place + 1, len(stream))
    return {name: np.array(peers, dtype=np.intp) for name, peers in chosen.items()}


def choose_present(read: Read, chosen: int, score: FloatArray, prob: FloatArray, present: Present) -> int:
    """The peer that a read chose, or, where that one is absent, its choice among the peers present.

    Only a route can choose an absent peer, so scores and p̂ are all that it chooses by.
    """
    if chosen == NOBODY or present[chosen] or not present.any():
        return chosen
    peers = np.flatnonzero(present)
    n = len(peers)
    view = View(
        score=score[peers],
        prob=prob[peers],
        groups=np.full(n, -1, dtype=np.intp),
        text_log_odds=np.zeros(n),
        alternatives=1.0,
        readable=np.ones(n),
        relation=lambda: np.eye(n),
        labelled=0.0,
    )
    return int(peers[read.choose(view).peer])


class MemoryPlayer:
    """Every read of a `SigmaMem`, and the adaptive one, which is acted upon.

    One pass gives all of them: what a read would have chosen is part of the adaptive decision. Before the
    event ``at``, ``interrupt`` is called: a peer joins, a source is revoked, the memory is opened again.
    """

    def __init__(
        self,
        memory: SigmaMem,
        reads: Reads = READS,
        *,
        at: int | None = None,
        interrupt: Callable[[MemoryPlayer], None] = lambda player: None,
    ) -> None:
        self.memory = memory
        self.revoked: set[str] = set()  # sources that are not heard any more
        self._reads, self._at, self._interrupt = reads, at, interrupt
        self._ids: list[str] = []

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`SigmaMem.decide`."""
        if len(self._ids) == self._at:
            self._interrupt(self)
        decision = self.memory.decide(event.question, event.answers, phi=phi, topic=event.topics)
        self._ids.append(decision.id)
        peers = self.memory.peers
        score, prob = (np.array([values[p] for p in peers]) for values in (decision.scores, decision.probs))
        found = {read.name: NOBODY for read in self._reads if read.needs != "center"}
        for name, peer in decision.reads.items():
            index = peers.index(peer)
            found[name] = choose_present(self._reads[name], index, score, prob, present[: len(peers)])
        chosen = NOBODY if decision.peer is None else found[decision.read.removeprefix("adaptive:")]
        return {"adaptive": chosen, **found}

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """`SigmaMem.feedback`."""
        if source not in self.revoked:
            self.memory.feedback(self._ids[place], labels, source=source)

    def revoke(self, source: str) -> None:
        """`SigmaMem.revoke`."""
        self.memory.revoke(source)
        self.revoked.add(source)


class ExploringPlayer(MemoryPlayer):
    """The memory's own route, exploring or not: for streams where only the chosen peer is ever labelled."""

    def __init__(self, memory: SigmaMem, *, explore: bool = True) -> None:
        super().__init__(memory)
        self._explore = explore

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """`SigmaMem.route`; where its peer is absent, the one with the highest p̂ among those present."""
        decision = self.memory.route(phi=phi, explore=self._explore, topic=event.topics)
        self._ids.append(decision.id)
        peer = self.memory.peers.index(decision.peer)
        if not present[peer]:
            peer = best_present(np.array(list(decision.probs.values())), present)
        return {decision.read: peer}


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
