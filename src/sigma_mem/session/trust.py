"""Looking without touching: who is trusted at a question, and in general. No ledger line, no tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sigma_mem.answers.features import Answers
from sigma_mem.events import Answer, FloatArray
from sigma_mem.ledger.fold import Fold
from sigma_mem.memory import SigmaState
from sigma_mem.memory.rates import wilson
from sigma_mem.memory.topics import checked_topics
from sigma_mem.session.tabular import Tabular
from sigma_mem.session.view import view_of
from sigma_mem.session.votes import votes_of_groups


@dataclass(frozen=True, slots=True)
class PeerTrust:
    """How far a peer can be trusted.

    Attributes
    ----------
    prob : float
        Calibrated probability p̂ that it is right.
    interval : tuple of float
        Where p̂ lies with 95 %, by the evidence there is.
    effective : float
        Labelled events behind it, near the question or anywhere, as far as they are not forgotten.
    labels : int
        Events on which it was labelled at all: a rate is over what a peer was asked, not over all tasks.
    last : float, optional
        When its newest label came, in seconds since 1970; None if it has none.
    """

    prob: float
    interval: tuple[float, float]
    effective: float
    labels: int = 0
    last: float | None = None

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.prob:.2f} [{low:.2f}, {high:.2f}]"


class TrustByPeer(Mapping[str, PeerTrust], Tabular):
    """Peer → trust, in the order of the pool: at one question or topic, or whatever the task.

    Attributes
    ----------
    events : int
        Decided so far.
    topics : mapping
        Topic → trust there; empty unless it is the trust whatever the task.
    votes : float, optional
        How many independent votes an agreement of all peers is worth, whatever the task: nine peers that
        err together may be worth two. None at a question.

    Examples
    --------
    >>> TrustByPeer({"ann": PeerTrust(0.9, (0.8, 0.95), 30.0)}, 31)
    <Trust after 31 events: ann 0.90 [0.80, 0.95]>
    """

    __slots__ = ("_by_peer", "events", "topics", "votes")

    def __init__(
        self,
        by_peer: Mapping[str, PeerTrust],
        events: int,
        topics: Mapping[str, TrustByPeer] | None = None,
        votes: float | None = None,
    ) -> None:
        self._by_peer, self.events, self.votes = dict(by_peer), events, votes
        self.topics = {} if topics is None else dict(topics)

    def __getitem__(self, peer: str) -> PeerTrust:
        return self._by_peer[peer]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_peer)

    def __len__(self) -> int:
        return len(self._by_peer)

    def __repr__(self) -> str:
        where = f", {len(self.topics)} topics" if self.topics else ""
        peers = ", ".join(f"{peer} {found}" for peer, found in self.items())
        return f"<Trust after {self.events} events{where}: {peers}>"

    def rows(self) -> list[dict[str, Any]]:
        """One row a peer and topic; the topic is None for the trust whatever the task."""
        places = [(None, self), *self.topics.items()]
        return [
            {"peer": peer, **({"topic": topic} if self.topics else {}), **_flat(trust[peer])}
            for peer in self
            for topic, trust in places
        ]

    def to_dict(self) -> dict[str, Any]:
        """Events, votes and, under "peers" and "topics", peer → prob, interval, effective, labels, last."""
        return {
            "events": self.events,
            "votes": self.votes,
            "peers": {
                peer: {**asdict(found), "interval": list(found.interval)} for peer, found in self.items()
            },
            "topics": {topic: trust.to_dict()["peers"] for topic, trust in self.topics.items()},
        }


def trust_at(fold: Fold, phi: FloatArray, moment: float, topics: Sequence[str] = ()) -> TrustByPeer:
    """What the memory says of every peer at φ and on these topics."""
    reading = fold.state.read(phi, moment, topics)
    return _trust(fold, reading.prob, reading.effective, reading.observations)


def trust_overall(fold: Fold, time: float) -> TrustByPeer:
    """What the memory says of every peer whatever the task, and on every topic."""
    state = fold.state
    (prob, labels), moment, nothing = state.overall(), state.moment(time), np.zeros(state.rank)
    names = state.topics.names
    found = _trust(fold, prob, np.abs(labels), np.abs(labels) + 1.0)
    found.topics = {name: trust_at(fold, nothing, moment, checked_topics(name)) for name in names}
    found.votes = votes_together(state, moment)
    return found


def votes_together(state: SigmaState, moment: float, peers: Sequence[str] | None = None) -> float:
    """How many independent votes it is worth if these peers, all by default, give one answer.

    Learned from how far the confidence in earlier agreements held.
    """
    phi = np.zeros(state.rank)
    same = Answers(dict.fromkeys(state.peers if peers is None else peers, Answer("", "the same")), {})
    same = same.in_pool(state.peers)
    view = view_of(state, state.read(phi, moment), phi, same, None, state.copying(moment))
    return float(votes_of_groups(state, view)[0])


def _trust(fold: Fold, prob: FloatArray, effective: FloatArray, observations: FloatArray) -> TrustByPeer:
    low, high = wilson(prob, observations)
    columns = zip(
        fold.state.peers, prob.tolist(), low.tolist(), high.tolist(), effective.tolist(), strict=True
    )
    return TrustByPeer(
        {
            peer: PeerTrust(p, (a, b), n, fold.labelled[peer], fold.last_label.get(peer))
            for peer, p, a, b, n in columns
        },
        fold.state.clock,
    )


def _flat(found: PeerTrust) -> dict[str, float | None]:
    low, high = found.interval
    return {
        "prob": found.prob,
        "low": low,
        "high": high,
        "effective": found.effective,
        "labels": found.labels,
        "last": found.last,
    }
