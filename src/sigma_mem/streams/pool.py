"""What a recorded pool is worth: which peers are right, which err together, which add nothing.

Everything is measured against the labels of a stream; no memory takes part. A panel of judges is a pool, too:
its members' verdicts are the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.vote import group_answers
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory.ballots import (
    LabelledAnswers,
    joint_weights,
    label_ballots,
    labelled_answers,
    pair_ballots,
)
from sigma_mem.memory.rates import wilson
from sigma_mem.streams.stream import Stream, pair_of

_FOLDS = 5  # the joint vote of every fifth is learned from the others
_LEAST_TOGETHER = 20  # events that two peers must share before they are compared
_SURE = 1.96  # standard deviations from independence that a pair must be apart
_TIE = 1e-9  # below this, totals are equal


@dataclass(frozen=True, slots=True)
class PeerWorth:
    """One peer of a pool."""

    peer: str
    labels: int
    accuracy: float
    low: float  # Wilson's 95 % interval
    high: float
    adds: float  # accuracy of the joint vote of all, less that without this peer; out of sample
    adds_error: float  # standard error of that
    consistent: float | None  # share of pairs in two orders in which a judge prefers the same output twice

    @property
    def adds_nothing(self) -> bool:
        """Whether the pool without this peer would be right as often or more."""
        return self.adds <= 0.0


@dataclass(frozen=True, slots=True)
class DeceivingPair:
    """Two peers that give the same wrong answer more often than independent ones would."""

    peers: tuple[str, str]
    correlation: float  # of being wrong
    together: float  # share of events in which both give the same wrong answer
    expected: float  # the same, if they erred independently


@dataclass(frozen=True, slots=True)
class PoolReport:
    """A pool, measured against its labels.

    Attributes
    ----------
    majority, joint, best : float
        Accuracy of a majority (ties counted in expectation), of a vote that knows which peers err together,
        out of sample, and of the best single peer, which only hindsight knows.
    correlation : array (P, P)
        Of being wrong, for every two peers; NaN if they share too few events or one never varies.
    effective_votes : float
        How many independent votes the pool is worth: P²/Σ of the correlations, and at most P.
    """

    peers: tuple[PeerWorth, ...]
    events: int
    majority: float
    joint: float
    best: float
    correlation: FloatArray
    effective_votes: float
    deceiving: tuple[DeceivingPair, ...]

    @property
    def redundant(self) -> tuple[str, ...]:
        """Peers that add nothing: one may go; measure again before another one goes."""
        return tuple(line.peer for line in self.peers if line.adds_nothing)

    def values(self) -> dict[str, Any]:
        """All of it as plain values, for JSON; None if a number is not known."""
        return {
            **asdict(self),
            "peers": [asdict(line) | {"adds_nothing": line.adds_nothing} for line in self.peers],
            "correlation": [[x if x == x else None for x in row] for row in self.correlation.tolist()],
        }


def pool_report(stream: Stream) -> PoolReport:
    """Measure a pool by the labelled events of a stream.

    Examples
    --------
    >>> from sigma_mem.events import Answer, Event
    >>> def event(i, verdicts, right):
    ...     said = dict(zip("abc", verdicts))
    ...     labels = {peer: 1.0 if v == right else -1.0 for peer, v in said.items()}
    ...     return Event(str(i), "?", {peer: Answer(v, v) for peer, v in said.items()}, labels)
    >>> events = [event(i, "112" if i % 2 else "221", "2") for i in range(40)]
    >>> report = pool_report(Stream("tiny", ("a", "b", "c"), tuple(events)))
    >>> [round(line.accuracy, 2) for line in report.peers], report.deceiving[0].peers
    ([0.5, 0.5, 0.5], ('a', 'b'))
    """
    labels = stream.labels()
    kept = np.flatnonzero(~np.isnan(labels).all(axis=1))
    if not len(kept):
        raise InputError(f"stream {stream.name!r} has no label; expected some, to measure its peers by")
    canons = stream.canons()
    groups = np.array([group_answers(canons[place]) for place in kept.tolist()])
    return measured_pool(
        stream.peers, groups, labels[kept], [pair_of(stream.events[place].id) for place in kept]
    )


def measured_pool(
    peers: Sequence[str], groups: NDArray[np.intp], c: FloatArray, tasks: Sequence[str]
) -> PoolReport:
    """Measure a pool by answer groups and labels, (events, peers) each; events of one task are one pair."""
    wrong = np.where(np.isnan(c), np.nan, c < 0.0)
    n = (~np.isnan(c)).sum(axis=0)
    accuracy = (c >= 0.0).sum(axis=0) / np.maximum(n, 1)
    low, high = wilson(accuracy, np.maximum(n, 1).astype(np.float64))
    joint = _joint_correct(groups, c, tasks)
    lines = []
    for p, peer in enumerate(peers):
        rest = [q for q in range(len(peers)) if q != p]
        gained = joint - (_joint_correct(groups[:, rest], c[:, rest], tasks) if rest else 0.0)
        right = accuracy.item(p), low.item(p), high.item(p)
        adds = float(gained.mean()), float(gained.std() / np.sqrt(len(gained)))
        lines.append(PeerWorth(peer, n.item(p), *right, *adds, _consistency(wrong[:, p], tasks)))
    correlation = error_correlation(wrong)
    majority = _correct((groups[:, :, None] == groups[:, None, :]).sum(axis=2), labelled_answers(c, groups))
    return PoolReport(
        peers=tuple(lines),
        events=len(c),
        majority=float(majority.mean()),
        joint=float(joint.mean()),
        best=max(line.accuracy for line in lines),
        correlation=correlation,
        effective_votes=float(len(lines) ** 2 / max(np.nan_to_num(correlation).sum(), len(lines))),
        deceiving=deceiving_pairs(peers, groups, wrong, correlation),
    )


def error_correlation(wrong: FloatArray) -> FloatArray:
    """Correlation of being wrong over the events that two peers share, (P, P)."""
    known = (~np.isnan(wrong)).astype(np.float64)
    failed = np.nan_to_num(wrong)
    n = known.T @ known
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = failed.T @ known / n  # of p, over the events that q shares
        spread = np.sqrt(rate * (1.0 - rate))
        out: FloatArray = (failed.T @ failed / n - rate * rate.T) / (spread * spread.T)
    out[(n < _LEAST_TOGETHER) | ~np.isfinite(out)] = np.nan
    np.fill_diagonal(out, 1.0)
    return out


def deceiving_pairs(
    peers: Sequence[str], groups: NDArray[np.intp], wrong: FloatArray, correlation: FloatArray
) -> tuple[DeceivingPair, ...]:
    """Pairs that give the same wrong answer more often than by chance, the worst first.

    By chance both are wrong as often as the product of their rates, and then agree as often as two wrong
    peers of this pool do.
    """
    known = ~np.isnan(wrong) & (groups >= 0)
    failed = known & (wrong == 1.0)
    both_failed = failed[:, :, None] & failed[:, None, :]
    same = (both_failed & (groups[:, :, None] == groups[:, None, :])).sum(axis=0)
    n, failing = (x.T.astype(np.float64) @ known for x in (known, failed))
    once = np.triu_indices(len(peers), 1)
    agreed = same[once].sum() / max(both_failed.sum(axis=0)[once].sum(), 1)
    expected = agreed * failing * failing.T / np.maximum(n, 1.0) ** 2
    together = same / np.maximum(n, 1.0)
    noise = np.sqrt(np.maximum(expected * (1.0 - expected), 1e-12) / np.maximum(n, 1.0))
    found = [
        DeceivingPair((peers[p], peers[q]), correlation.item(p, q), together.item(p, q), expected.item(p, q))
        for p, q in zip(*(axis.tolist() for axis in once), strict=True)
        if n[p, q] >= _LEAST_TOGETHER and together[p, q] - expected[p, q] > _SURE * noise[p, q]
    ]
    return tuple(sorted(found, key=lambda line: line.expected - line.together))


def _joint_correct(groups: NDArray[np.intp], c: FloatArray, tasks: Sequence[str]) -> FloatArray:
    """Whether the joint vote is right, its weights learned from the other folds, (T,)."""
    groups = np.array([_renumbered(row) for row in groups.tolist()])
    pairs, answers = pair_ballots(groups), labelled_answers(c, groups)
    right = label_ballots(answers)
    numbers = {task: number for number, task in enumerate(dict.fromkeys(tasks))}
    fold = np.array([numbers[task] % _FOLDS for task in tasks])
    totals = np.zeros(c.shape)
    for k in range(_FOLDS):
        learn = (fold != k) & answers.counts
        n = float(learn.sum())
        weights = joint_weights(pairs[learn].sum(axis=0), n, right[learn].sum(axis=0), n)
        own = groups[fold == k]
        totals[fold == k] = (own[:, :, None] == own[:, None, :]) @ weights
    return _correct(totals, answers)


def _renumbered(row: Sequence[int]) -> NDArray[np.intp]:
    """Groups numbered from 0 again, once a peer has been left out."""
    return group_answers([None if group < 0 else str(group) for group in row])


def _correct(totals: NDArray[Any], answers: LabelledAnswers) -> FloatArray:
    """Whether the answer with the largest total is right, by peer that gave it; ties in expectation, (T,)."""
    best = np.where(answers.share > 0.0, totals, -np.inf)
    tied = answers.share * (best >= best.max(axis=1, keepdims=True) - _TIE)
    out: FloatArray = (tied * (answers.right >= 0.5)).sum(axis=1) / np.maximum(tied.sum(axis=1), _TIE)
    return out


def _consistency(wrong: FloatArray, tasks: Sequence[str]) -> float | None:
    """Share of pairs in two orders of which a judge got both right or both wrong; None without pairs.

    With two outputs to choose from, that is to prefer the same one in both orders.
    """
    by_task: dict[str, list[float]] = {}
    for task, failed in zip(tasks, wrong.tolist(), strict=True):
        by_task.setdefault(task, []).append(failed)
    both = [found for found in by_task.values() if len(found) == 2 and not np.isnan(found).any()]
    return float(np.mean([one == other for one, other in both])) if both else None
