"""What lines contribute to the sums, on its way there: rows of events, which are written together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray
from sigma_mem.ledger.event import Answered
from sigma_mem.ledger.lines import NOT_ASKED
from sigma_mem.memory import SigmaState
from sigma_mem.memory.ballots import OPINIONS

Labels = tuple[
    FloatArray,  # φ
    Sequence[float]
    | FloatArray,  # labels of the pool, then of peers that have left it; NaN if a peer has none
    float,  # tick
    float,  # sign
    Sequence[float] | None,  # weights
    Sequence[int] | None,  # answer groups
    NDArray[np.float16] | None,  # claims
    tuple[str, ...],  # topics
    NDArray[np.float16] | None,  # claims of the topics
    FloatArray | None,  # opinions
]
Texts = tuple[FloatArray, FloatArray, float, float]  # features, residuals, tick, weight


class Contributions:
    """Rows for every kind of write that `SigmaState` has, until they are written."""

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self.texts: list[Texts] = []
        self.agreed_texts: list[Texts] = []
        self.sureness: list[tuple[FloatArray, float, float, float]] = []  # claims, right, tick, weight
        self.agreements: list[tuple[FloatArray, Sequence[float], float, float]] = []  # φ, a, tick, sign
        self.answers: list[tuple[Sequence[int], float, float]] = []  # groups, tick, sign
        self.decisions: list[tuple[float, float]] = []  # confidence, tick
        self.verdicts: list[tuple[Answered, FloatArray, Mapping[str, float], float, float]] = []

    def write(self, state: SigmaState) -> None:
        """Write all rows, and forget them."""
        if self.agreements:
            phis, a, ticks, signs = zip(*self.agreements, strict=True)
            state.write_agreement(np.array(phis), _padded(a, math.nan), ticks, signs)
        if self.answers:
            groups, ticks, signs = zip(*self.answers, strict=True)
            state.write_answers(_padded(groups, -1, np.intp), ticks, signs)
        for texts, write in ((self.agreed_texts, state.write_agreed_texts), (self.texts, state.write_texts)):
            if texts:
                features, residuals, ticks, weights = zip(*texts, strict=True)
                write(_padded(features, 0.0), _padded(residuals, math.nan), ticks, weights)
        if self.decisions:
            state.count_decisions(*zip(*self.decisions, strict=True))
        if self.sureness:
            claims, right, ticks, weights = zip(*self.sureness, strict=True)
            state.write_sureness(np.array(claims), right, ticks, weights)
        for answered, phi, labels, tick, weight in self.verdicts:
            scores, errors = answered.body.verdict_scores(), answered.errors(labels)
            equal = np.array(answered.groups)
            state.write_verdicts(scores, equal, phi, errors, tick, weight, answered.peers)
        if self.labels:
            _write_labels(state, self.labels)
        for rows in vars(self).values():
            rows.clear()


def _write_labels(state: SigmaState, rows: Sequence[Labels]) -> None:
    phis, c, ticks, signs, weights, groups, claims, topics, topic_claims, opinions = zip(*rows, strict=True)
    n, labels = len(state.peers), _padded(c, math.nan)
    ones, none = [1.0] * n, [NOT_ASKED] * labels.shape[1]
    state.write(
        np.array(phis),
        labels,
        ticks,
        sign=signs,
        weight=np.array([w or ones for w in weights]) if any(weights) else None,
        groups=_padded([g or none for g in groups], NOT_ASKED, np.intp) if any(groups) else None,
        claims=_claims(claims, n),
        topics=topics,
        topic_claims=_claims(topic_claims, n),
        opinions=_opinions(opinions, labels.shape[1]),
    )


def _opinions(rows: Sequence[FloatArray | None], n_peers: int) -> FloatArray | None:
    """Opinions of events, (T, opinions, P), NaN for one that mixed no votes; None if none did."""
    if all(row is None for row in rows):
        return None
    out = np.full((len(rows), len(OPINIONS), n_peers), math.nan)
    for place, row in enumerate(rows):
        if row is not None:
            out[place] = 0.0
            out[place, :, : row.shape[1]] = row
    return out


def _claims(rows: Sequence[NDArray[np.float16] | None], n_peers: int) -> NDArray[np.float16] | None:
    """Claims of events, (T, P, K), NaN if none were recorded; None if there are none at all."""
    sizes = [len(row[0]) for row in rows if row is not None]
    if not sizes:
        return None
    nothing = np.full((n_peers, sizes[0]), math.nan, dtype=np.float16)
    return np.array([nothing if row is None else row for row in rows])


def _padded(rows: Sequence[Any], empty: float, dtype: type = np.float64) -> NDArray[Any]:
    """Rows of unequal length as one array."""
    widest = max(map(len, rows))
    if all(len(row) == widest for row in rows):
        return np.array(rows, dtype=dtype)
    out: NDArray[Any] = np.full((len(rows), widest, *np.shape(rows[0])[1:]), empty, dtype=dtype)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out
