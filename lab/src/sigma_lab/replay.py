"""What the memory said just before every event of a recorded stream whose labels come on time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.memory.copies import agreement_beside_copies, votes_among


@dataclass(frozen=True, slots=True)
class Replay:
    """What the memory said of every peer just before every event; `rate` is p̂ whatever the task.

    Arrays (T, P), but G (T, P, P), alternatives and the number of labelled events (T,); text_log_odds
    are 0 without text features, votes (how many each peer is worth) 1 where nobody copies.
    """

    score: FloatArray
    effective: FloatArray
    prob: FloatArray
    rate: FloatArray
    G: FloatArray
    alternatives: FloatArray
    readable: FloatArray
    text_log_odds: FloatArray
    labelled: FloatArray
    votes: FloatArray


def replay(
    phis: FloatArray,
    c: FloatArray,
    settings: Settings | None = None,
    groups: NDArray[np.intp] | None = None,
    features: FloatArray | None = None,
    topics: Sequence[Sequence[str]] | None = None,
) -> Replay:
    """Read, then write, every event of a stream whose labels arrive on time.

    Parameters
    ----------
    phis : array (T, rank), unit rows
    c : array (T, P)
        Labels in [−1, 1]; NaN where there is none. Decay is by event.
    groups : int array (T, P), optional
        Answer groups; −1 where an answer could not be read, −2 where none was asked for.
    features : array (T, P, S), optional
        Text features of the answers.
    topics : sequence of sequences of str, optional
        Topics of every event.

    Examples
    --------
    >>> phis = np.array([[1.0, 0.0]] * 3)
    >>> replay(phis, np.array([[1.0], [1.0], [1.0]]), Settings(gamma=0.5, eta=1.0)).score[:, 0].tolist()
    [0.0, 1.0, 1.5]
    """
    settings = settings or Settings()
    if settings.decay != "event":
        raise InputError(f"decay is {settings.decay!r}; expected 'event': a replay has labels, but no times")
    n_events, n_peers = c.shape
    if groups is None:
        groups = np.full(c.shape, -2, dtype=np.intp)
    n_features = 0 if features is None else features.shape[2]
    state = SigmaState([str(p) for p in range(n_peers)], phis.shape[1], settings, n_features)
    by_peer = (n_events, n_peers)
    out = Replay(
        score=np.empty(by_peer),
        effective=np.empty(by_peer),
        prob=np.empty(by_peer),
        rate=np.empty(by_peer),
        G=np.empty((*by_peer, n_peers)),
        alternatives=np.ones(n_events),
        readable=np.ones(by_peer),
        text_log_odds=np.zeros(by_peer),
        labelled=np.empty(n_events),
        votes=np.ones(by_peer),
    )
    for t in range(n_events):
        phi, some, given = phis[t], () if topics is None else topics[t], groups[t]
        reading, answered, read = state.read(phi, topics=some), (given > -2).any(), given >= 0
        out.score[t], out.effective[t], out.prob[t] = reading.score, reading.effective, reading.prob
        out.rate[t], out.G[t], out.labelled[t] = state.overall()[0], state.G, state.labelled
        agreement = agreement_labels(given)
        if answered:
            out.alternatives[t], out.readable[t] = state.alternatives(phi), state.readable
            copying = state.copying()
            if copying is not None:
                out.votes[t] = votes_among(given, copying)
                if out.votes[t].min() < 1.0:
                    agreement = agreement_beside_copies(given, copying, out.votes[t])
            if features is not None:
                out.text_log_odds[t] = state.text_log_odds(features[t], read)
        tick = state.begin_event()
        if answered:
            state.write_agreement(phi, agreement, tick)
            state.write_copies(given, tick)
            if features is not None:
                state.write_agreed_texts(features[t][read], agreement[read], tick)
        if (c[t] == c[t]).any():  # NaN differs from itself
            state.write(
                phi,
                c[t],
                tick,
                groups=given if answered else None,
                claims=reading.claims,
                topics=some,
                topic_claims=None if reading.topics is None else reading.topics.claims,
            )
            if answered and features is not None:
                state.features.write(features[t][read], (c[t] - 2.0 * reading.prob + 1.0)[read], tick)
    return out
