"""Verdicts: how judges score answers, weighed by how such scores turned out.

A judge gives scores to some of an event's answers, on any scale: log-odds, points, 0 or 1, a rank. z is a
score less the mean over the event's answers. e is what an answer turned out to be, from 0 to 1, less p̂ of
its peer as it was claimed at the decision. Equal answers share one weight w between them. Each judge has
decayed sums over labelled answers,

    Σ w·z·e,  Σ w·z²,  Σ w·e²,  Σ w            at the slow rate, the first two at a fast one as well,
    Σ w·z,  Σ w·e,  Σ w   of every peer,       Σ w·z·z′ with every other judge,
    Σ w·z·e φφᵀ,  Σ w·z² φφᵀ                   its reliability at φ, as a peer has M and N.

e is regressed on the z of all judges together, so that two with the same scores count as one, and on
the peer that answered: what a judge gives to a peer whatever its answer is bias, and is left out. The slope
is moved to that of similar tasks, and to the recent one if the two differ by more than chance. Before there
are labels, a judge is given a correlation of 0.3 of z and e, for whoever asks a judge thinks that it knows
something; several share that. What differs from this by no more than chance stays so (Stein), and a blind
judge is found out by a few dozen labels. Four times the slope is a log-odds near p = ½; over 1 − R² it is
that of two normal distributions. A judge that is missing, or gives all answers the same score, adds nothing.
A label that comes late, is corrected or revoked counts in all of this exactly as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.kernel import add_events, fold_window, kernel, pair_products, scores
from sigma_mem.memory.sums import PEERS, Sum, Sums

MOST_JUDGES = 16
_RIDGE = 10.0  # ridge penalty, in answers
_RECENT_RIDGE = 5.0  # the same of the recent slope
_LOCAL = 150.0  # answers that the slope over all tasks is worth at φ
_OF_PEER = 20.0  # answers by which the bias to a peer is shrunk to 0
_CHANGED = 4.0  # squared standard errors beyond which the recent slope differs
_MOST_SHARE = 0.6  # of the variance of e that one judge may explain
_PRIOR = 0.3  # correlation of z and e that a judge is given before labels show another
_NEW = 20.0  # labelled answers after which a judge is asked by its own record
_MOST = 3.0  # bound of the log-odds of one judge
_PRIOR_SLOPE = 0.5 * _PRIOR / (1.0 - _PRIOR * _PRIOR)  # in deviations of z, e of a deviation of 0.5
_LEAST, _NONE = 1e-9, 1e-6  # of a share and of labels: below is what rounding leaves of revoked ones
_EQUAL = 1e-12  # of the largest score: what differs by less is the same
_TINY = 1e-200  # of a variance, on whatever scale a judge has

Scores = Mapping[str, FloatArray]  # judge → score of every peer's answer, NaN if it gave none


class JudgedAnswers(NamedTuple):
    """Scores of one judge, each less the mean over answers, and the weights of the answers, (P,).

    Both are 0 for an answer without a score, and if fewer than two different answers have one.
    """

    z: FloatArray
    w: FloatArray


def judged_answers(score: FloatArray, groups: NDArray[np.intp]) -> JudgedAnswers:
    """z and w of an event's answers, by peer.

    Examples
    --------
    >>> judged = judged_answers(np.array([3.0, 3.0, 0.0, np.nan]), np.array([0, 0, 1, 2]))
    >>> judged.z.tolist(), judged.w.tolist()
    ([1.5, 1.5, -1.5, 0.0], [0.5, 0.5, 1.0, 0.0])
    """
    there = np.isfinite(score) & (groups >= 0)
    same = (groups[:, None] == groups) & there
    w = np.where(there, 1.0 / np.maximum(np.add.reduce(same, axis=1), 1), 0.0)
    answers = float(np.add.reduce(w))
    if answers < 1.5:
        return JudgedAnswers(np.zeros(len(score)), np.zeros(len(score)))
    given = np.where(there, score, 0.0)
    z = given - float(w.dot(given)) / answers
    return JudgedAnswers(np.where(there & (np.abs(z) > _EQUAL * np.abs(given).max()), z, 0.0), w)


def verdict_sums(rank: int, slow: float, fast: float) -> dict[str, Sum]:
    """Declare the sums of every judge."""
    return {
        "verdicts": Sum((0, 4), slow),
        "verdicts.recent": Sum((0, 2), fast),
        "verdicts.peers": Sum((0, 3, PEERS), slow),
        "verdicts.pairs": Sum((0, MOST_JUDGES), slow),
        **kernel("verdicts.near", (0, 2), slow, rank),
    }


class Verdicts:
    """The places of the sums of every judge, made when a label first needs them.

    Examples
    --------
    A judge that is always right, on peers that are right half of the time:

    >>> sums, verdicts = Sums(2, verdict_sums(2, slow=0.0, fast=0.0)), Verdicts()
    >>> phi, groups, prob = np.array([1.0, 0.0]), np.array([0, 1]), np.array([0.5, 0.5])
    >>> for event in range(50):
    ...     right = np.array([1.0, 0.0]) if event % 2 else np.array([0.0, 1.0])
    ...     verdicts.write(sums, {"gpt": 10.0 * right}, groups, phi, right - prob, 0.0, groups)
    >>> verdicts.log_odds(sums, {"gpt": np.array([10.0, 0.0])}, groups, phi)["gpt"].round(2).tolist()
    [3.0, -3.0]
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def judges(self) -> tuple[str, ...]:
        """Judges with labelled scores."""
        return tuple(self._places)

    # --- read ----------------------------------------------------------------------------

    def log_odds(
        self, sums: Sums, given: Scores, groups: NDArray[np.intp], phi: FloatArray, now: float = 0.0
    ) -> dict[str, FloatArray]:
        """Log-odds that every judge adds to each answer, by peer, (P,).

        Peers with the same answer share its verdict, so that it counts once in their vote.
        """
        n = len(self._places)
        slopes, spreads, labelled = np.zeros(n), np.zeros(n), np.zeros(n)
        of_peers = np.zeros((n, 3, len(groups)))
        if n:
            of_peers = sums["verdicts.peers"] * sums.factors("verdicts.peers", now)
            slopes, spreads, labelled = self._slopes(sums, of_peers, phi, now, len(given))
        out = {}
        for name, score in given.items():
            z, w = judged_answers(score, groups)
            if w.any():
                place = self._places.get(name, -1)
                spread = float(np.sqrt(w.dot(z * z) / np.add.reduce(w)))
                # Nothing is known of its scores: they are measured by themselves.
                if place < 0 or labelled[place] < _NONE or spreads[place] <= _LEAST * spread:
                    slope = _PRIOR_SLOPE / (len(given) * max(spread, _TINY))
                else:
                    slope = float(slopes[place])
                    z = z - np.where(w > 0.0, _bias(of_peers[place]), 0.0)
                    z -= float(w.dot(z)) / float(np.add.reduce(w))
                same = (groups[:, None] == groups) * w
                mean = same @ z  # of an answer: w of its supporters adds up to 1
                out[name] = np.where(w > 0.0, np.clip(4.0 * slope * mean, -_MOST, _MOST) * w, 0.0)
        return out

    def powers(self, sums: Sums, judges: Iterable[str], phi: FloatArray, now: float) -> dict[str, float]:
        """How far apart each judge puts right and wrong answers at φ, in deviations; more while it is new."""
        if not self._places:
            return dict.fromkeys(judges, 1.0)
        of_peers = sums["verdicts.peers"] * sums.factors("verdicts.peers", now)
        slope, spread, labelled = self._slopes(sums, of_peers, phi, now, 1)
        known = np.maximum(4.0 * np.abs(slope) * spread, _NEW / (_NEW + labelled)).tolist()
        return {name: known[self._places[name]] if name in self._places else 1.0 for name in judges}

    def _slopes(
        self, sums: Sums, of_peers: FloatArray, phi: FloatArray, now: float, judges: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By judge, (J,): what a unit of z is worth at φ in units of e, deviation of z, labelled answers."""
        n = len(self._places)
        own, recent, pairs = (
            sums[name][:n] * sums.factors(name, now)
            for name in ("verdicts", "verdicts.recent", "verdicts.pairs")
        )
        ze, zz, ee, count = np.maximum(own.T, [[-np.inf], [0.0], [0.0], [0.0]])
        unit = zz / np.maximum(count, _LEAST)  # variance of z
        noise = ee / np.maximum(count, _LEAST)
        seen = unit > _TINY
        safe = np.where(seen, unit, 1.0)
        of_peers = of_peers[:n]
        bias = np.stack([_bias(rows) for rows in of_peers])
        within = np.maximum(zz - np.add.reduce(bias * of_peers[:, 0], axis=1), 0.1 * zz)
        beside = ze - np.add.reduce(bias * of_peers[:, 1], axis=1)
        gram = np.where(np.eye(n, dtype=bool), within + _RIDGE * safe, pairs[:, :n])
        scale = np.sqrt(safe)
        slope = np.linalg.solve(gram / np.outer(scale, scale), beside / scale) / scale
        alone = ze / (zz + _RIDGE * safe)
        near = scores(sums, "verdicts.near", phi, pair_products(phi))[:n] * sums.factors("verdicts", now)
        here = (near[:, 0] - alone * near[:, 1]) / (np.maximum(near[:, 1], 0.0) + _LOCAL * safe)
        since = np.maximum(recent[:, 1], 0.0) + _RECENT_RIDGE * safe
        change = recent[:, 0] / since - alone
        moved = here + change * _kept(change, _CHANGED * noise / since)
        of_one = within + _RIDGE * safe
        # Stein: what differs from the prior by no more than chance stays the prior.
        prior = _PRIOR * np.sqrt(np.maximum(noise, _LEAST) / safe) / judges
        slope = prior + (slope + moved - prior) * _kept(beside / of_one + moved - prior, noise / of_one)
        explained = np.minimum(slope * slope * unit / np.maximum(noise, _LEAST), _MOST_SHARE)
        worth = np.where(seen, slope / (1.0 - explained), 0.0)
        return worth, np.sqrt(unit * (1.0 - explained)), count

    # --- write ---------------------------------------------------------------------------

    def write(
        self,
        sums: Sums,
        given: Scores,
        groups: NDArray[np.intp],
        phi: FloatArray,
        residual: FloatArray,
        tick: float,
        places: NDArray[np.intp],
        weight: float = 1.0,
    ) -> None:
        """Write what the labels of an event imply about its judges; a negative weight takes it back.

        Parameters
        ----------
        given, groups : mapping, int array
            Scores and answer groups of the peers that were in the pool at that time.
        residual : array
            e of these; NaN if an answer has no label.
        places : int array
            The place of each of them in the pool now; −1 for one that has left it.
        """
        judged = {name: judged_answers(score, groups) for name, score in given.items()}
        judged = {name: found for name, found in judged.items() if found.w.any()}
        if not judged:
            return
        there = residual == residual  # NaN differs from itself
        e = np.where(there, residual, 0.0)
        here = places >= 0
        seen = np.zeros(sums.n_peers)
        seen[places[here]] = there[here]
        w = sums.weights(np.array([tick]), seen)
        own = [self._place(sums, name) for name in judged]
        rows = np.zeros((len(self._places), 4))
        of_peers = np.zeros((len(rows), 3, sums.n_peers))
        pairs = np.zeros((len(rows), MOST_JUDGES))
        for place, (z, share) in zip(own, judged.values(), strict=True):
            share = np.where(there, share, 0.0)
            of_peers[place][:, places[here]] = weight * (share * np.array([z, e, np.ones(len(e))]))[:, here]
            rows[place] = weight * np.array(
                [(share * z).dot(e), (share * z).dot(z), (share * e).dot(e), share.sum()]
            )
            for other, (z_other, share_other) in zip(own, judged.values(), strict=True):
                both = np.where(there, np.minimum(share, share_other), 0.0)
                pairs[place, other] = weight * (both * z).dot(z_other)
        for name, added in (
            ("verdicts", rows),
            ("verdicts.recent", rows[:, :2]),
            ("verdicts.peers", of_peers),
            ("verdicts.pairs", pairs),
        ):
            sums[name][: len(rows)] += added * sums.weight_of(name, w)[0]
        near = np.zeros((1, len(sums["verdicts.near"]), 2))
        near[0, : len(rows)] = rows[:, :2] * sums.weight_of("verdicts", w)[0]
        add_events(sums, "verdicts.near", phi[None], near)

    def _place(self, sums: Sums, judge: str) -> int:
        place = self._places.get(judge)
        if place is None:
            if len(self._places) == MOST_JUDGES:
                raise InputError(f"judge {judge!r} is one too many; expected at most {MOST_JUDGES} judges")
            place = self._places[judge] = len(self._places)
            for name in ("", ".recent", ".peers", ".pairs", ".near", ".near.recent"):
                sums.grow(f"verdicts{name}", place + 1)
        return place

    # --- merge, snapshot -----------------------------------------------------------------

    def adopt(self, other: Verdicts, mine: Sums, theirs: Sums) -> Sums:
        """The sums of another memory, with its judges at the places that they have here, by name."""
        for sums in (mine, theirs):
            fold_window(sums, "verdicts.near")
        out = theirs.take(range(theirs.n_peers))
        moved = [self._place(mine, name) for name in other._places]
        for name in ("", ".recent", ".peers", ".pairs", ".near", ".near.recent"):
            array = out[f"verdicts{name}"]
            before = theirs[f"verdicts{name}"]
            array[...] = 0.0
            for place, to in enumerate(moved):
                row = before[place]
                if name == ".pairs":
                    row = np.zeros(MOST_JUDGES)
                    row[moved] = before[place, : len(moved)]
                out.grow(f"verdicts{name}", to + 1)[to] = row
        return out

    def pack(self) -> dict[str, FloatArray]:
        """Which judges there are, for a snapshot."""
        names = json.dumps(list(self._places)).encode()
        return {"verdicts.names": np.array(list(names), dtype=np.float64)}

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned."""
        names = json.loads(bytes(packed["verdicts.names"].astype(np.uint8)))
        self._places = {name: place for place, name in enumerate(names)}


def _bias(of_peers: FloatArray) -> FloatArray:
    """Mean z of every peer, shrunk to 0, (P,), from Σw·z, Σw·e and Σw."""
    out: FloatArray = of_peers[0] / (np.maximum(of_peers[2], 0.0) + _OF_PEER)
    return out


def _kept(value: FloatArray, error: FloatArray) -> FloatArray:
    """The share of a value that chance of this squared error does not explain, from 0 to 1."""
    out: FloatArray = np.maximum(0.0, 1.0 - error / np.maximum(value * value, 1e-300))
    return out
