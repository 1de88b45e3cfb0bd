"""Looking without touching: who is trusted at a question, and in general. No ledger line, no tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.memory.calibration import wilson
from sigma_mem.session.tabular import Tabular

_Z = 1.96  # half-width of a 95 % interval, in standard deviations


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
        Labelled events behind it: near the question, or anywhere.
    """

    prob: float
    interval: tuple[float, float]
    effective: float

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
        """Peer → prob, interval, effective."""
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


def trust_at(state: SigmaState, phi: FloatArray, moment: float, topics: Sequence[str] = ()) -> TrustByPeer:
    """What the memory says of every peer at φ and on these topics."""
    reading = state.read(phi, moment, topics)
    return _trust(state, reading.prob, reading.effective, reading.pseudo)


def trust_overall(state: SigmaState) -> TrustByPeer:
    """What the memory says of every peer whatever the task."""
    prob, labels = state.overall()
    return _trust(state, prob, np.abs(labels), state.settings.strength)


def _trust(state: SigmaState, prob: FloatArray, effective: FloatArray, pseudo: float) -> TrustByPeer:
    low, high = wilson(prob, effective + pseudo, _Z)
    columns = zip(state.peers, prob.tolist(), low.tolist(), high.tolist(), effective.tolist(), strict=True)
    return TrustByPeer({peer: PeerTrust(p, (a, b), n) for peer, p, a, b, n in columns})


def _flat(found: PeerTrust) -> dict[str, float]:
    low, high = found.interval
    return {"prob": found.prob, "low": low, "high": high, "effective": found.effective}
