"""Looking without touching: who is trusted at a question, and in general. No ledger line, no tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.ledger.fold import Fold
from sigma_mem.memory.rates import wilson
from sigma_mem.session.tabular import Tabular


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
    """Peer → trust at one question, in the order of the pool.

    Examples
    --------
    >>> TrustByPeer({"ann": PeerTrust(0.9, (0.8, 0.95), 30.0)})
    <Trust: ann 0.90 [0.80, 0.95]>
    """

    __slots__ = ("_by_peer",)

    def __init__(self, by_peer: Mapping[str, PeerTrust]) -> None:
        self._by_peer = dict(by_peer)

    def __getitem__(self, peer: str) -> PeerTrust:
        return self._by_peer[peer]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_peer)

    def __len__(self) -> int:
        return len(self._by_peer)

    def __repr__(self) -> str:
        return f"<Trust: {', '.join(f'{peer} {found}' for peer, found in self.items())}>"

    def rows(self) -> list[dict[str, Any]]:
        """One row a peer."""
        return [{"peer": peer, **_flat(found)} for peer, found in self.items()]

    def to_dict(self) -> dict[str, Any]:
        """Peer → prob, interval, effective, labels, last."""
        return {peer: {**asdict(found), "interval": list(found.interval)} for peer, found in self.items()}


@dataclass(frozen=True, slots=True, repr=False)
class TrustTable(Tabular):
    """Who is trusted, overall and by topic.

    Attributes
    ----------
    events : int
        Decided so far.
    overall : TrustByPeer
        Whatever the task; `effective` counts labels, as far as they are not forgotten.
    topics : mapping
        Topic → trust there.
    """

    events: int
    overall: TrustByPeer
    topics: Mapping[str, TrustByPeer]

    def __repr__(self) -> str:
        where = f", {len(self.topics)} topics" if self.topics else ""
        return f"<TrustTable of {self.events} events{where}: {repr(self.overall)[8:-1]}>"

    def rows(self) -> list[dict[str, Any]]:
        """One row a peer and topic; the topic is None for the overall rate."""
        places = [(None, self.overall), *self.topics.items()]
        return [
            {"peer": peer, "topic": topic, **_flat(trust[peer])}
            for peer in self.overall
            for topic, trust in places
        ]

    def to_dict(self) -> dict[str, Any]:
        """Events, overall and topics, each peer → prob, interval, effective."""
        topics = {topic: trust.to_dict() for topic, trust in self.topics.items()}
        return {"events": self.events, "overall": self.overall.to_dict(), "topics": topics}


def trust_at(fold: Fold, phi: FloatArray, moment: float, topics: Sequence[str] = ()) -> TrustByPeer:
    """What the memory says of every peer at φ and on these topics."""
    reading = fold.state.read(phi, moment, topics)
    return _trust(fold, reading.prob, reading.effective, reading.observations)


def trust_overall(fold: Fold) -> TrustByPeer:
    """What the memory says of every peer whatever the task."""
    prob, labels = fold.state.overall()
    return _trust(fold, prob, np.abs(labels), np.abs(labels) + 1.0)


def _trust(fold: Fold, prob: FloatArray, effective: FloatArray, observations: FloatArray) -> TrustByPeer:
    low, high = wilson(prob, observations)
    columns = zip(
        fold.state.peers, prob.tolist(), low.tolist(), high.tolist(), effective.tolist(), strict=True
    )
    return TrustByPeer(
        {
            peer: PeerTrust(p, (a, b), n, fold.labelled[peer], fold.last_label.get(peer))
            for peer, p, a, b, n in columns
        }
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
