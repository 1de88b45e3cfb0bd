"""Verdicts of judges on the answers of a stream: who gives them, how good they are, a memory with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sigma_lab.bench.league import Setup
from sigma_lab.bench.play import MemoryPlayer, play
from sigma_lab.bench.row import Present, TableRow, correct_at, row_of
from sigma_lab.reveal import Reveal
from sigma_mem.decide.read import NOBODY
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

Verdicts = Mapping[str, Mapping[str, float]]  # by event and canon of an answer


class JudgedPlayer(MemoryPlayer):
    """`SigmaMem.decide` with the verdicts of judges, (T, P) each, NaN if there is none; nothing else."""

    def __init__(self, memory: SigmaMem, judges: Mapping[str, FloatArray]) -> None:
        super().__init__(memory)
        self._judges = judges

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """Decide on the event at the place of its turn."""
        place, peers = len(self._ids), self.memory.peers
        verdicts = {
            judge: {p: u for p, u in zip(peers, scores[place].tolist(), strict=True) if u == u}
            for judge, scores in self._judges.items()
        }
        decision = self.memory.decide(event.question, event.answers, phi=phi, verdicts=verdicts)
        self._ids.append(decision.id)
        return {"adaptive": NOBODY if decision.peer is None else peers.index(decision.peer)}


def weighed_row(
    stream: Stream,
    phis: FloatArray,
    judges: Mapping[str, FloatArray],
    setup: Setup,
    reveal: Reveal | None = None,
) -> TableRow:
    """What `decide` chooses with an empty memory that weighs the verdicts of these judges."""
    with setup.memory(stream.peers, phis.shape[1]) as memory:
        (chosen,) = play(stream, phis, JudgedPlayer(memory, judges), reveal).values()
    return row_of(chosen, correct_at(stream.labels(), chosen), stream.peers)


def own_answer_verdicts(stream: Stream, judge: str, peers: Sequence[str]) -> dict[str, dict[str, float]]:
    """A model of the stream as judge of others: 1 for an answer that equals its own, 0 for another."""
    out: dict[str, dict[str, float]] = {}
    for event in stream:
        own = event.answers.get(judge)
        if own is not None and own.canon is not None:
            canons = {event.answers[p].canon for p in peers if p in event.answers}
            out[event.id] = {canon: float(canon == own.canon) for canon in canons if canon is not None}
    return out


def verdict_scores(stream: Stream, verdicts: Verdicts) -> FloatArray:
    """Scores of every peer's answer, (T, P). They follow the answer, whichever peer gives it under attack."""
    out = np.full((len(stream), len(stream.peers)), np.nan)
    for t, event in enumerate(stream):
        for p, peer in enumerate(stream.peers):
            answer = event.answers.get(peer)
            if answer is not None and answer.canon is not None:
                out[t, p] = verdicts.get(event.id, {}).get(answer.canon, np.nan)
    return out


def judge_alone(labels: FloatArray, scores: FloatArray) -> FloatArray:
    """How right an answer with the judge's highest score is, ties in expectation."""
    known = np.where(np.isnan(scores), -np.inf, scores)
    best = (known == known.max(axis=1, keepdims=True)) & ~np.isnan(labels)
    right = np.where(best, 0.5 + 0.5 * np.nan_to_num(labels), 0.0).sum(axis=1)
    out: FloatArray = right / np.maximum(best.sum(axis=1), 1)
    return out


def auc(utilities: FloatArray, labels: FloatArray) -> float | None:
    """Probability that a right answer has the higher U than a wrong one, ties half; None without both.

    >>> auc(np.array([[2.0, 1.0], [0.0, np.nan]]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    1.0
    """
    return auc_within(utilities.reshape(1, -1), labels.reshape(1, -1))


def auc_within(utilities: FloatArray, labels: FloatArray) -> float | None:
    """The same among the answers to one question, over all pairs of a right and a wrong one."""
    wins = pairs = 0.0
    for U, c in zip(utilities, labels, strict=True):
        right, wrong = U[(c > 0) & ~np.isnan(U)], np.sort(U[(c < 0) & ~np.isnan(U)])
        below = np.searchsorted(wrong, right, side="left") + np.searchsorted(wrong, right, side="right")
        wins += float(below.sum()) / 2
        pairs += len(right) * len(wrong)
    return wins / pairs if pairs else None
