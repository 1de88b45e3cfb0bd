"""Trust in every peer, at a question and in general; reading it adds no ledger line and no tick."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sigma_mem.answers.features import check_in_pool
from sigma_mem.decide.weights import calibrated_weights, tempered
from sigma_mem.events import FloatArray
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.lines import NOT_ASKED
from sigma_mem.memory import SigmaState
from sigma_mem.memory.confidence import answer_claims
from sigma_mem.memory.copies import votes_among
from sigma_mem.memory.rates import wilson
from sigma_mem.tabular import Rows, Tabular

_LEAST_EVIDENCE = 0.05  # log-odds of a single vote, below which votes cannot be counted in it


@dataclass(frozen=True, slots=True)
class PeerTrust:
    """How far a peer can be trusted.

    Attributes
    ----------
    prob : float
        Calibrated probability p̂ that it is right.
    interval : tuple of float
        The 95 % interval of p̂, by the evidence so far.
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
    """What the memory knows of every peer at φ and on these topics; on one topic, labels are its own."""
    reading = fold.state.read(phi, moment, topics)
    alone = len(topics) == 1 and not phi.any()
    labels = fold.state.topic_labels(topics[0]) if alone else reading.effective
    return _trust(fold, reading.prob, labels, reading.interval())


def trust_overall(fold: Fold, time: float) -> TrustByPeer:
    """What the memory knows of every peer whatever the task, and on every topic."""
    state = fold.state
    (prob, labels), moment, nothing = state.overall(), state.moment(time), np.zeros(state.rank)
    names = state.topics.names
    found = _trust(fold, prob, np.abs(labels), wilson(prob, np.abs(labels) + 1.0))
    found.topics = {name: trust_at(fold, nothing, moment, (name,)) for name in names}
    found.votes = votes_together(state, moment)
    return found


def votes_together(state: SigmaState, moment: float, peers: Sequence[str] | None = None) -> float:
    """How many independent votes it is worth if these peers, all by default, give one answer.

    Its calibrated log-odds, in units of the weight of an average vote: learned from how far the confidence in
    earlier agreements held. If a single vote is next to no evidence, only copies of one another count.
    """
    phi, named = np.zeros(state.rank), set(state.peers if peers is None else peers)
    check_in_pool(named, state.peers)
    if not named:
        return 0.0
    groups = np.array([0 if peer in named else NOT_ASKED for peer in state.peers])
    alternatives, copying = state.alternatives(phi), state.copying(moment)
    weights = calibrated_weights(state.read(phi, moment).prob, alternatives, state.readable)
    votes = np.ones(len(groups)) if copying is None else votes_among(groups, copying)
    votes[groups < 0] = 0.0
    most, single = max(float(votes.sum()), 1.0), float(weights[groups >= 0].mean())
    if single <= _LEAST_EVIDENCE:
        return most
    total = votes @ tempered(weights, groups, state.labelled)
    claims = answer_claims(np.array([total]), alternatives, 0, 1.0)
    sure = state.calibrated(state.mixed_claim(claims))
    evidence = math.log(sure / (1.0 - sure)) + math.log(alternatives)
    return min(max(evidence / single, 1.0), most)


def _trust(
    fold: Fold, prob: FloatArray, effective: FloatArray, interval: tuple[FloatArray, FloatArray]
) -> TrustByPeer:
    numbers = (column.tolist() for column in (prob, *interval, effective))
    columns = zip(fold.state.peers, *numbers, strict=True)
    return TrustByPeer(
        {
            peer: PeerTrust(p, (a, b), n, fold.labelled[peer], fold.last_label.get(peer))
            for peer, p, a, b, n in columns
        },
        fold.state.clock,
    )


def _flat(found: PeerTrust) -> dict[str, float | None]:
    low, high = found.interval
    seen = {"effective": found.effective, "labels": found.labels, "last": found.last}
    return {"prob": found.prob, "low": low, "high": high, **seen}


@dataclass(frozen=True, slots=True)
class Source:
    """A person or program that gives labels.

    Attributes
    ----------
    name : str
    lines : int
        How often it gave feedback.
    trusted, revoked : bool
    agreement : float, optional
        Correlation, from 0 to 1, with trusted sources on labels that both gave; with the other sources if no
        trusted one labelled the same answers; None if there is nothing to compare.
    compared : float
        Labels behind that, as far as they are not forgotten.
    weight : float
        What it weighs now, from 0 to 1: on an event of its own if trusted sources are named, else relative
        to the most reliable of the others.
    """

    name: str
    lines: int
    trusted: bool
    revoked: bool
    agreement: float | None
    compared: float
    weight: float


def list_sources(fold: Fold, lines: Mapping[str, int]) -> list[Source]:
    """Sources by name, given how many lines each has in the ledger."""
    names = sorted({*lines, *fold.revoked, *fold.sources.trusted})
    weights = fold.sources.weights([name for name in names if name not in fold.revoked], fold.state)
    out = Rows[Source]()
    for name in names:
        agreement, n = fold.sources.agreement(name, fold.state.now)
        out.append(
            Source(
                name,
                lines.get(name, 0),
                fold.sources.is_trusted(name),
                name in fold.revoked,
                agreement if n else None,
                n,
                weights.get(name, 0.0),
            )
        )
    return out
