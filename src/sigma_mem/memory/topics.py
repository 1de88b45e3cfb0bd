"""What the caller knows of a task's kind: coordinates in addition to those of its text.

With e the unit vector over an event's topics, the direction of an event whose topics have the share b is

    x_b = (√(1−b)·φ ; √b·e),   so that   (x_b·x_b′)² = ((1−b)·φ·φ′ + b·e·e′)²

is its kernel with another. No b is right for every stream, and none needs an M of its own:

    x_bᵀM_b x_b = (1−b)²·φᵀMφ + 2b(1−b)·Σ_i e_i v_iᵀφ + b²·Σ_ij e_i e_j w_ij,
    v_i = Σ γ^age c e_i φ  of every topic,   w_ij = Σ γ^age c e_i e_j  of every pair of topics.

Σ γ^(2·age) e_i e_j is kept of every pair too: w counts as the number of labels on these topics that it is
worth (`rates`), so that what a peer does elsewhere takes nothing from what is known of it here.

What p̂ would be with the share b alone is its claim, and p̂ mixes the claims by their decayed log-likelihood.
A claim is shrunk to that of the text alone, so that a new topic takes nothing away. One more claim is w at
the fast rate, for a peer that changed on these topics: it counts if it predicted this peer's own labels
better than the others did. A question without a topic has the share 0, and reads and writes nothing of this.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.rates import (
    LEAST,
    LOCAL,
    SURE,
    bounded,
    claim_sum,
    effective,
    likelihoods,
    shrunk_mean,
    unshrunk,
)
from sigma_mem.memory.sums import PEERS, Sum, Sums

SHARES = np.array([0.0, 0.3, 0.6, 0.9])  # b
MOST_TOPICS = 1024  # that have sums of their own
MOST_TOGETHER = 8  # topics of one event
_SHARED = 64  # sums that later topics share, by a hash of their names
_MOST_PAIRS = 4096
_OF_PAIRS = ("topics.pairs", "topics.squares", "topics.recent")
_LONGEST = 200  # characters of a name
FEW = 4.0  # labels that the rate of the text alone, or over all topics, is worth on a topic
# (1−b)², 2b(1−b), b²: weights of the three blocks, (3, B)
_BLOCKS = np.array([(1.0 - SHARES) ** 2, 2.0 * SHARES * (1.0 - SHARES), SHARES**2])


def checked_topics(topic: str | Collection[str] | None) -> tuple[str, ...]:
    """The topics of an event, sorted, each once.

    >>> checked_topics(["law", "german", "law"])
    ('german', 'law')
    """
    if topic is None:
        return ()
    named = tuple(topic) if isinstance(topic, list | tuple | set | frozenset) else (topic,)
    for name in named:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
            raise InputError(
                f"topic is {name!r:.80}; expected text of 1 to {_LONGEST} characters, or a list of such"
            )
    names = tuple(sorted(set(named)))
    if len(names) > MOST_TOGETHER:
        raise InputError(f"got {len(names)} topics; expected at most {MOST_TOGETHER} for one task")
    return names


def share_weights(likelihood: FloatArray) -> FloatArray:
    """Weight of every share, (..., B), from the decayed log-likelihood of its claims.

    >>> share_weights(np.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    weights: FloatArray = np.exp(likelihood - likelihood.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def recent_weights(better: FloatArray) -> FloatArray:
    """Weight of the newest labels on the topics alone, (P,), by how much likelier they made a peer's labels.

    >>> recent_weights(np.array([-1.0, 4.0])).round(2).tolist()
    [0.0, 0.85]
    """
    weights = 1.0 / (1.0 + np.exp(-np.minimum(better, 50.0)) / LOCAL)
    out: FloatArray = np.where(weights < SURE, 0.0, weights)
    return out


def topic_kernel(similarity: FloatArray, overlap: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_b weight_b·((1−b)·φ·φ′ + b·e·e′)² of events with these φ·φ′ and e·e′."""
    out: FloatArray = ((similarity[..., None] * (1.0 - SHARES) + overlap[..., None] * SHARES) ** 2) @ weights
    return out


def topic_overlap(some: Sequence[str], others: Sequence[str]) -> float:
    """e·e′: 1 for the same topics, 0 if none is shared.

    >>> topic_overlap(["law", "german"], ["law"]).__round__(3)
    0.707
    """
    return len(set(some) & set(others)) / float(np.sqrt(max(len(some) * len(others), 1)))


def _kernel_sums(of_text: FloatArray, across: FloatArray, within: FloatArray) -> FloatArray:
    """x_bᵀM_b x_b/η and x_bᵀN_b x_b/η of every peer and share, (2, P, B)."""
    text, beside, alone = _BLOCKS
    out: FloatArray = of_text[:, :, None] * text
    out += across[:, :, None] * beside
    out += within[:, :, None] * alone
    return out


class TopicReading(NamedTuple):
    """What topics add for every peer: mixed kernel sums, mean label, and the claims of every share."""

    score: FloatArray  # (P,)
    effective: FloatArray  # (P,)
    mean: FloatArray  # (P,)
    claims: NDArray[np.float16]  # mean label by every share, then lately, as a ledger keeps it, (P, B + 1)
    weights: FloatArray  # of every share, (B,)
    pull: FloatArray  # by how much labels on the topics alone differ from the mean, (P,)
    apart: FloatArray  # variance between the claims, (P,)
    spread: FloatArray  # one over the number of labels behind a claim, mixed over shares, (P,)


def topic_sums(rank: int, rate: float, fast: float, mixing_rate: float) -> dict[str, Sum]:
    """Declare v of every topic and w of every pair, 0 for M and 1 for N, w at the fast rate, and claims."""
    return {
        "topics.vectors": Sum((0, 2, PEERS, rank), rate),
        "topics.pairs": Sum((0, 2, PEERS), rate),
        "topics.squares": Sum((0, PEERS), 2.0 * rate),
        "topics.recent": Sum((0, 2, PEERS), fast),
        "topics.claims": claim_sum(len(SHARES) + 1, mixing_rate),
    }


class Topics:
    """The places of the sums of every topic and pair of topics, made when a label first needs them.

    Examples
    --------
    Right on law, wrong on the rest; the questions look alike:

    >>> topics, phi, ones = Topics(), np.array([1.0, 0.0]), np.ones((2, 1))
    >>> sums = Sums(1, topic_sums(rank=2, rate=0.0, fast=0.0, mixing_rate=0.0))
    >>> for _ in range(20):
    ...     topics.write(sums, phi, ("law",), np.array([[1.0], [1.0]]), ones)
    ...     topics.write(sums, phi, ("sport",), np.array([[-1.0], [1.0]]), ones)
    >>> of_text, zero, one = np.array([[0.0], [40.0]]), np.zeros(1), np.ones(1)
    >>> found = topics.read(sums, phi, ("law",), of_text, zero, zero, ones, one, 40.0 * one, 5.0)
    >>> found.mean.round(2).tolist()
    [0.43]
    """

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}  # topic → its place
        self._pairs: dict[tuple[int, int], int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Topics that have sums of their own, in the order of their first labels."""
        return tuple(self._slots)

    # --- write ---------------------------------------------------------------------------

    def write(
        self, sums: Sums, phi: FloatArray, topics: Sequence[str], both: FloatArray, factors: FloatArray
    ) -> None:
        """Add an event's labels and their weights, (2, P), times factors of age at both rates, (2, P)."""
        own, (slow, fast) = self._places(topics, make=True), both * factors[:, None]
        vectors = sums.grow("topics.vectors", 1 + max(place for place, _ in own))
        for place, e in own:
            vectors[place] += (e * slow)[:, :, None] * phi
        pairs = self._pairs_of(own, make=True)  # before the array, which grows with them
        held, squares, recent = (sums.grow(name, len(self._pairs)) for name in _OF_PAIRS)
        for place, e, _ in pairs:
            held[place] += e * slow
            squares[place] += e * slow[1] * factors[0]
            recent[place] += e * fast

    def _places(self, topics: Sequence[str], *, make: bool = False) -> list[tuple[int, float]]:
        """The place of every topic that has one, and its e."""
        out: dict[int, float] = {}
        for name in topics:
            place = self._slots.get(name)
            if place is None and len(self._slots) < MOST_TOPICS:
                if not make:
                    continue
                place = self._slots[name] = len(self._slots)
            elif place is None:
                place = MOST_TOPICS + zlib.crc32(name.encode("utf-8", "replace")) % _SHARED
            out[place] = out.get(place, 0.0) + len(topics) ** -0.5
        return sorted(out.items())

    def _pairs_of(
        self, own: Sequence[tuple[int, float]], *, make: bool = False
    ) -> list[tuple[int, float, float]]:
        """The place of every pair that has one, e_i·e_j, and how often it counts: as i, j and as j, i."""
        out = []
        for at, (i, e_i) in enumerate(own):
            for j, e_j in own[at:]:
                place = self._pair(i, j, make=make)
                if place is not None:
                    out.append((place, e_i * e_j, 1.0 if i == j else 2.0))
        return out

    def _pair(self, i: int, j: int, *, make: bool) -> int | None:
        """The place of a pair, i ≤ j; None if it has none, as later pairs of two topics do."""
        if make and (i == j or len(self._pairs) < _MOST_PAIRS):
            return self._pairs.setdefault((i, j), len(self._pairs))
        return self._pairs.get((i, j))

    # --- read ----------------------------------------------------------------------------

    def read(
        self,
        sums: Sums,
        phi: FloatArray,
        topics: Sequence[str],
        of_text: FloatArray,
        near: FloatArray,
        change: FloatArray,
        fresh: FloatArray,
        decayed: FloatArray,
        most: FloatArray,
        strength: float,
    ) -> TopicReading:
        """What every peer's mean label is, mixed over the shares of the topics.

        Parameters
        ----------
        of_text : array (2, P)
            φᵀMφ/η and φᵀNφ/η, of the text alone, as of the anchors.
        near, strength : array (P,) and float
            The mean of the text alone, to which that of every share is shrunk, and how strongly.
        change : array (P,)
            What horizons add to the mean of the text alone, and so to that of every share.
        fresh : array (2, P)
            Factors that make sums at the slowest and the fast rate those of the labels that they are worth.
        decayed : array (P,)
            Factor by which sums at the slowest rate have decayed by now.
        most : array (P,)
            Labels of every peer, whatever their age.
        """
        across, within, squares, recent = self._blocks(sums, phi, topics)
        here = effective(within[0], within[1], squares, most).fresh
        now = _kernel_sums(of_text * decayed, across * decayed, within * decayed)
        totals, labels = _kernel_sums(of_text * fresh[0], across * fresh[0], within * here)
        likely = likelihoods(sums["topics.claims"], most)
        if phi.any():
            weights = share_weights(np.add.reduce(likely[:, :-1]))
        else:  # there is no text to share with, and the prior is a rate over kinds of task
            weights, strength = (SHARES.max() == SHARES).astype(np.float64), FEW
            near = self._over_topics(sums, near, most)
        claims = shrunk_mean(totals, np.abs(labels), near[:, None], min(strength, FEW))
        pull = np.add.reduce((weights * unshrunk(totals, np.abs(labels), claims))[:, 1:], axis=-1)
        claims[:, 0] = near  # the text alone
        claims = bounded(claims + change[:, None])
        # Sums term by term and not by BLAS: equal peers get equal bits.
        score, seen = np.add.reduce(now * weights, axis=-1)
        mean = np.add.reduce(claims * weights, axis=-1)
        apart = np.add.reduce(np.square(claims - mean[:, None]) * weights, axis=-1)
        spread = np.add.reduce(weights / (np.abs(now[1]) + LEAST), axis=-1)
        lately, n = recent[0] * fresh[1], np.abs(recent[1]) * fresh[1]
        local = bounded(shrunk_mean(lately, n, mean, FEW))
        left = np.where(fresh[0] > 0.0, decayed / np.maximum(fresh[0], 1e-300), 0.0)  # it falls in a pause
        sure = recent_weights(likely[:, -1] - np.add.reduce(likely[:, :-1] * weights, axis=-1))
        recorded = np.concatenate((claims, local[:, None]), axis=1).astype(np.float16)
        return TopicReading(
            score=score,
            effective=np.abs(seen),
            mean=mean + sure * (local - mean),
            claims=recorded,
            weights=weights,
            pull=pull + sure * (unshrunk(lately, n, local) - pull),
            apart=apart + sure * (1.0 - sure) * np.square(local - mean),
            spread=spread + sure * (1.0 / (n * left + LEAST) - spread),
        )

    def _over_topics(self, sums: Sums, overall: FloatArray, most: FloatArray) -> FloatArray:
        """Every peer's mean label over topics, not over labels: the tasks it was sent count no more, (P,)."""
        own = [self._pairs[i, i] for i in range(len(self._slots)) if (i, i) in self._pairs]
        pairs = sums["topics.pairs"][own]
        means, labels, _ = effective(pairs[:, 0], pairs[:, 1], sums["topics.squares"][own], most)
        known = labels / (labels + FEW)
        out: FloatArray = (overall + (known * means).sum(axis=0)) / (1.0 + known.sum(axis=0))
        return out

    def _blocks(
        self, sums: Sums, phi: FloatArray, topics: Sequence[str]
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Σ_i e_i v_iᵀφ, Σ_ij e_i e_j w_ij, the squares of w, and w at the fast rate, as of the anchors."""
        across, within, recent = np.zeros((3, 2, sums.n_peers))
        squares, own = np.zeros(sums.n_peers), self._places(topics)
        vectors, pairs = sums["topics.vectors"], sums["topics.pairs"]
        for place, e in own:
            if place < len(vectors):
                across += e * np.add.reduce(vectors[place] * phi, axis=-1)
        for place, e, times in self._pairs_of(own):
            within += times * e * pairs[place]
            squares += times * e * sums["topics.squares"][place]
            recent += times * e * sums["topics.recent"][place]
        return across, within, squares, recent

    def labels(self, sums: Sums, topic: str) -> FloatArray:
        """Number of labels of every peer on events with this topic, (P,), as of the anchors."""
        found = self._pairs_of(self._places((topic,)))
        return np.abs(sums["topics.pairs"][found[0][0], 1]) if found else np.zeros(sums.n_peers)

    # --- merge, snapshot -----------------------------------------------------------------

    def adopt(self, other: Topics, theirs: Sums) -> Sums:
        """The sums of another memory, with its topics at the places that they have here, by name."""
        out = theirs.take(range(theirs.n_peers))
        moved = {i: self._places((name,), make=True)[0][0] for name, i in other._slots.items()}
        vectors = theirs["topics.vectors"]
        for name in ("topics.vectors", *_OF_PAIRS):
            out[name][...] = 0.0
        for i, row in enumerate(vectors):
            if row.any():
                place = moved.get(i, i)
                out.grow("topics.vectors", place + 1)[place] += row
        for (i, j), place in other._pairs.items():
            own = sorted((moved.get(i, i), moved.get(j, j)))
            times = 2.0 if i != j and own[0] == own[1] else 1.0  # the pair came to share a place
            at = self._pair(own[0], own[1], make=True)
            if at is not None:
                for name in _OF_PAIRS:
                    out.grow(name, at + 1)[at] += times * theirs[name][place]
        return out

    def pack(self) -> dict[str, FloatArray]:
        """Which topics and pairs there are, for a snapshot."""
        names = json.dumps(list(self._slots)).encode()
        return {
            "topics.names": np.array(list(names), dtype=np.float64),
            "topics.places": np.array(list(self._pairs), dtype=np.float64).reshape(-1, 2),
        }

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned."""
        names = json.loads(bytes(packed["topics.names"].astype(np.uint8)))
        self._slots = {name: place for place, name in enumerate(names)}
        self._pairs = {(int(i), int(j)): n for n, (i, j) in enumerate(packed["topics.places"].tolist())}
