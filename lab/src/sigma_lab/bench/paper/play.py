"""What every mechanism of the paper chooses: a center's rows, direct reads of its memory, and controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.attack import counterfactual
from sigma_lab.bench import row
from sigma_lab.bench.baselines import Beta
from sigma_lab.bench.center import BenchCenter, judged_events
from sigma_lab.bench.league import MAJORITY, Progress, Setup, memory_choices, rows_of, silent
from sigma_lab.bench.paper.inputs import PaperStreams, dataset_name
from sigma_lab.bench.paper.published import RATIOS, SHARES
from sigma_lab.bench.row import TableRow
from sigma_lab.reveal import Reveal, Share, shown_events
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

JUDGED = ("base", "sigma-no-g", "sigma")
DIRECT = ("m-route", "m-vote", "adaptive")  # from the memory on the center's φ, without a judge
B1_GAMMA = 0.9  # the paper's

Rows = Mapping[str, TableRow]


@dataclass(frozen=True)
class CenterRows:
    """All that the tables need of one center; it need not be loaded any more."""

    name: str
    attacked: Mapping[float, Rows]  # by ratio, with three peers
    pools: Mapping[tuple[int, float], Rows]  # by size and ratio
    outside: Rows
    feedback: Mapping[float, Mapping[str, Sequence[float]]]  # by share: accuracies by row, one per mask
    auc: Mapping[str, tuple[float | None, float | None]]  # by stream: over all answers, within a question
    named: Mapping[float, TableRow]  # by ratio: base with a prompt that names the peer
    named_auc: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class PaperPlay:
    """Plays the paper's streams; the same events are judged in every cell of a table.

    All memories start empty, as the paper's M⁽⁰⁾ = 0; Beta B1 alone is warmed on the training stream.
    """

    streams: PaperStreams
    ratios: Sequence[float] = RATIOS
    shares: Sequence[float] = SHARES
    masks: int = 3
    seed: int = 0
    judge: int | None = None  # at most this many events of a table that the centers judge
    judge_more: int | None = None  # the same for larger pools and for feedback, of many forwards an event
    progress: Progress = silent

    def center(self, name: str, bench: BenchCenter) -> CenterRows:
        """Play everything that a table or figure shows of this center."""
        streams = self.streams
        attacked, pools, outside = {}, {}, {}
        feedback: Mapping[float, Mapping[str, Sequence[float]]] = {}
        auc_of = {}
        if streams.ood is not None:
            outside = self.rows(bench, streams.ood)
            auc_of["outside"] = self.judged_auc(bench, streams.ood)
        if streams.cf is not None:
            for ratio in self.ratios:
                attacked[ratio] = self.rows(bench, self.attack(ratio))
            auc_of["CF@0"] = self.judged_auc(bench, self.attack(0.0))
            for size, ratio in product(streams.larger, self.ratios):
                pool = counterfactual(streams.pool(size), ratio, seed=self.seed)
                pools[size, ratio] = self.rows(bench, pool, judged=("base", "sigma"), more=True)
        if streams.ood is not None:
            feedback = self.feedback(bench, streams.ood)
        return CenterRows(name, attacked, pools, outside, feedback, auc_of, {})

    def with_named(self, rows: CenterRows, bench: BenchCenter) -> CenterRows:
        """Add the judge that is told whose answer it reads, without memory, under every attack."""
        limited = self._limited(bench, more=False)
        found = {r: limited.judge(self.attack(r), rows=("base",))["base"] for r in self.ratios}
        return replace(rows, named=found, named_auc=self.judged_auc(bench, self.attack(0.0)))

    def attack(self, ratio: float) -> Stream:
        """The attacked benchmark at this ratio, with the peers that were trained with."""
        return counterfactual(self.streams.pool(self.streams.trained), ratio, seed=self.seed)

    def judged_auc(self, bench: BenchCenter, stream: Stream) -> tuple[float | None, float | None]:
        """How well the unsteered judge tells right from wrong: over all answers, and within a question."""
        limited = self._limited(bench, more=False)
        utilities, labels = limited.base_utilities(stream), stream.labels()[limited.places(stream)]
        return auc(utilities, labels), auc_within(utilities, labels)

    def places(self, stream: Stream, *, more: bool = False) -> list[int]:
        """The events that a table is about."""
        return judged_events(stream, limit=self._limit(more), seed=self.seed)

    def _limit(self, more: bool) -> int | None:
        return self.judge if not more or self.judge_more is None else self.judge_more

    def _limited(self, bench: BenchCenter, *, more: bool) -> BenchCenter:
        return replace(bench, after=0, limit=self._limit(more), seed=self.seed)

    def rows(
        self,
        bench: BenchCenter,
        stream: Stream,
        *,
        reveal: Reveal | None = None,
        judged: Sequence[str] = JUDGED,
        more: bool = False,
    ) -> dict[str, TableRow]:
        """A center's rows and the direct reads on its φ, about the judged events."""
        limited = self._limited(bench, more=more)
        shown = None if reveal is None else shown_events(stream, reveal)
        found = limited.judge(stream, shown=shown, rows=judged)
        setup = Setup(settings=self._settings(bench), seed=self.seed)
        choices = memory_choices(stream, limited.phis(stream), setup, reveal)
        direct = rows_of(stream, {name: choices[name] for name in DIRECT})
        places = limited.places(stream)
        return {**found, **{name: direct[name].at(places) for name in DIRECT}}

    def controls(self, stream: Stream, *, more: bool = False) -> dict[str, TableRow]:
        """Rows that need no center: majority, random, best fixed, oracle by benchmark, ceiling, and B1."""
        labels, present = stream.labels(), row.present_peers(stream)
        names = [dataset_name(event) for event in stream]
        chosen = {
            "best-fixed": row.best_fixed(labels, present),
            "oracle": row.domain_oracle(labels, names, present),
            "any-right": row.any_right(labels, present),
            "beta-b1": self._beta(stream),
        }
        found = {
            "random": row.row_of(None, row.random_correct(labels, present), stream.peers),
            MAJORITY: row.row_of(None, row.majority_correct(stream), stream.peers),
            **{n: row.row_of(c, row.correct_at(labels, c), stream.peers) for n, c in chosen.items()},
        }
        places = self.places(stream, more=more)
        return {name: one.at(places) for name, one in found.items()}

    def feedback(self, bench: BenchCenter, stream: Stream) -> dict[float, dict[str, list[float]]]:
        """Figure 3: accuracies of four rows by share of labelled events, one per mask."""
        names = ("base", "sigma", "m-route", "m-vote")
        known: dict[bytes, Rows] = {}  # at 100 % all masks are one
        found: dict[float, dict[str, list[float]]] = {}
        for number, share in enumerate(self.shares):
            by_name: dict[str, list[float]] = {name: [] for name in names}
            for mask in range(self.masks):
                reveal = Share(share, self.seed + mask)
                key = shown_events(stream, reveal).tobytes()
                if key not in known:
                    known[key] = self.rows(bench, stream, reveal=reveal, judged=("base", "sigma"), more=True)
                for name in names:
                    by_name[name].append(known[key][name].accuracy)
            found[share] = by_name
            self.progress("feedback", number + 1, len(self.shares))
        return found

    def _settings(self, center: BenchCenter) -> Settings:
        given: dict[str, Any] = {"gamma_g": center.weights.gamma_g, "eta_g": center.weights.eta_g}
        return (
            Settings(**given) if center.gamma == Settings().gamma else Settings(gamma=center.gamma, **given)
        )

    def _beta(self, stream: Stream) -> NDArray[np.intp]:
        """Bayesian Beta B1 from Beta(1, 1), warmed on the training stream where it has these peers."""
        beta = Beta(len(stream.peers), B1_GAMMA)
        train, nothing = self.streams.train, np.zeros(1)
        if train is not None and set(stream.peers) <= set(train.peers):
            for labels in train.select(peers=stream.peers).labels():
                beta.learn(nothing, labels, 0)
        chosen = []
        for labels, present in zip(stream.labels(), row.present_peers(stream), strict=True):
            chosen.append(beta.choose(nothing, present))
            beta.learn(nothing, labels, chosen[-1])
        return np.array(chosen, dtype=np.intp)


def auc(utilities: FloatArray, labels: FloatArray) -> float | None:
    """Probability that a right answer has the higher U than a wrong one, ties half; None without both.

    >>> auc(np.array([[2.0, 1.0], [0.0, np.nan]]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    1.0
    """
    known = ~np.isnan(utilities) & ~np.isnan(labels)
    right, wrong = utilities[known & (labels > 0)], np.sort(utilities[known & (labels < 0)])
    if not len(right) or not len(wrong):
        return None
    below = np.searchsorted(wrong, right, side="left") + np.searchsorted(wrong, right, side="right")
    return float(below.mean() / (2 * len(wrong)))


def auc_within(utilities: FloatArray, labels: FloatArray) -> float | None:
    """The same among the answers to one question, over all pairs of a right and a wrong one."""
    wins = pairs = 0.0
    for U, c in zip(utilities, labels, strict=True):
        right, wrong = U[(c > 0) & ~np.isnan(U)], U[(c < 0) & ~np.isnan(U)]
        difference = right[:, None] - wrong[None, :]
        wins += float((difference > 0).sum() + 0.5 * (difference == 0).sum())
        pairs += difference.size
    return wins / pairs if pairs else None
