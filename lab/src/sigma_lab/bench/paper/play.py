"""What every mechanism of the paper chooses: a center's rows, direct reads of its memory, and controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from sigma_lab.attack import Partner, counterfactual
from sigma_lab.bench.baselines import Beta
from sigma_lab.bench.center import BenchCenter, judged_events
from sigma_lab.bench.league import MAJORITY, Progress, Setup, memory_choices, oracle_rows, rows_of, silent
from sigma_lab.bench.paper.inputs import RATIOS, SHARES, PaperStreams, dataset_name
from sigma_lab.bench.play import RouterPlayer, play
from sigma_lab.bench.row import TableRow, majority_correct, row_of
from sigma_lab.bench.verdicts import auc, auc_within, judge_alone, verdict_scores, weighed_row
from sigma_lab.reveal import Reveal, Share, shown_events
from sigma_mem.events import Event, FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

JUDGED = ("base", "sigma-no-g", "sigma")
DIRECT = ("m-route", "m-vote", "adaptive")  # from the memory on the center's φ, without a judge
IN_WORDS = ("words", "u-feature", "words-feature")  # the memory in words, and U of both as evidence
VERDICTS = ("judge", "judged")  # a judge outside the pool: alone, and as evidence of adaptive
EVERYWHERE = "everywhere "  # before the name of a row that is about all events, not about the judged ones
B1_GAMMA = 0.9  # the paper's

Seeded = tuple[TableRow, ...]  # a row of every seed
Rows = Mapping[str, Seeded]


@dataclass(frozen=True)
class CenterRows:
    """All that the tables need of one center; it need not be loaded any more."""

    name: str
    attacked: Mapping[float, Rows]  # by ratio, with three peers
    pools: Mapping[tuple[int, float], Rows]  # by size and ratio
    outside: Rows
    feedback: Mapping[float, Mapping[str, Sequence[float]]]  # by share: accuracies by row, one per mask
    auc: Mapping[str, tuple[float | None, float | None]]  # by stream: over all answers, within a question
    named: Mapping[float, Seeded]  # by ratio: base with a prompt that names the peer
    named_auc: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class PaperPlay:
    """Plays the paper's streams in the order of every seed; all rows of a table are about the same events.

    Memories start empty, as the paper's M⁽⁰⁾ = 0, or behind ``warm`` if it has their peers; Beta B1 is warmed
    on the training stream. With ``per_benchmark`` every outside benchmark has a memory of its own.
    """

    streams: PaperStreams
    ratios: Sequence[float] = RATIOS
    shares: Sequence[float] = SHARES
    masks: int = 3
    seeds: Sequence[int] = (0,)
    judge: int | None = None  # at most this many events of a table that the centers judge
    judge_more: int | None = None  # the same for larger pools and for feedback, of many forwards an event
    partner: Partner = "random"
    warm: Stream | None = None
    per_benchmark: bool = False
    words: bool = False  # whether Table 1 also has a judge that reads the memory's record in words
    progress: Progress = silent

    def center(self, name: str, bench: BenchCenter, *, figure: bool = True) -> CenterRows:
        """Play everything that a table shows of this center, and Figure 3 if it is to have one."""
        streams, auc_of = self.streams, {}
        attacked: dict[float, Rows] = {}
        pools: dict[tuple[int, float], Rows] = {}
        outside: Rows = {}
        feedback: Mapping[float, Mapping[str, Sequence[float]]] = {}
        if streams.cf is not None:
            attacked = {ratio: self._attacked(bench, ratio) for ratio in self.ratios}
            auc_of["CF@0"] = self.judged_auc(bench, self.attack(0.0, self.seeds[0]))
            sizes = product(streams.larger, self.ratios)
            pools = {(size, ratio): self._attacked(bench, ratio, size) for size, ratio in sizes}
        if streams.ood is not None:
            outside = self._each(lambda seed: self.outside(bench, seed))
            auc_of["outside"] = self.judged_auc(bench, self.ordered(streams.ood, self.seeds[0]))
            feedback = self.feedback(bench, streams.ood) if figure else {}
        return CenterRows(name, attacked, pools, outside, feedback, auc_of, {})

    def _attacked(self, bench: BenchCenter, ratio: float, size: int | None = None) -> Rows:
        """Rows under attack; a larger pool has fewer of them, on fewer events."""
        if size is None:
            return self._each(lambda seed: self.rows(bench, self.attack(ratio, seed), seed, words=self.words))
        pair = ("base", "sigma")
        return self._each(
            lambda seed: self.rows(bench, self.attack(ratio, seed, size), seed, judged=pair, more=True)
        )

    def with_named(self, rows: CenterRows, bench: BenchCenter) -> CenterRows:
        """Add the judge that sees which peer answered, without memory, under every attack."""
        found = {
            ratio: tuple(
                self._limited(bench, seed).judge(self.attack(ratio, seed), rows=("base",))["base"]
                for seed in self.seeds
            )
            for ratio in self.ratios
        }
        clean = self.attack(0.0, self.seeds[0])
        return replace(rows, named=found, named_auc=self.judged_auc(bench, clean))

    def ordered(self, stream: Stream, seed: int) -> Stream:
        """The stream in the order that a seed draws: mixed, as in the paper."""
        return stream.select(seed=seed, limit=self.streams.limit)

    def attack(self, ratio: float, seed: int, size: int | None = None) -> Stream:
        """The attacked benchmark at this ratio, with the peers that were trained with or more."""
        pool = self.ordered(self.streams.pool(size or self.streams.trained), seed)
        return counterfactual(pool, ratio, seed=seed, partner=self.partner)

    def judged_auc(self, bench: BenchCenter, stream: Stream) -> tuple[float | None, float | None]:
        """How well the unsteered judge separates right from wrong: in all answers, and within a question."""
        limited = self._limited(bench, self.seeds[0])
        utilities, labels = limited.base_utilities(stream), stream.labels()[limited.places(stream)]
        return auc(utilities, labels), auc_within(utilities, labels)

    def places(self, stream: Stream, seed: int, *, more: bool = False) -> list[int]:
        """The events that a table is about."""
        return judged_events(stream, limit=self._limit(more), seed=seed)

    def judged(self, stream: Stream) -> Iterator[list[Event]]:
        """The events of the tables about an outside stream, for every seed."""
        for seed in self.seeds:
            one = self.ordered(stream, seed)
            yield [one.events[place] for place in self.places(one, seed)]

    def rows(
        self,
        bench: BenchCenter,
        stream: Stream,
        seed: int,
        *,
        reveal: Reveal | None = None,
        judged: Sequence[str] = JUDGED,
        more: bool = False,
        words: bool = False,
    ) -> dict[str, TableRow]:
        """A center's rows and the direct reads on its φ, about the judged events."""
        limited = self._limited(bench, seed, more=more)
        shown = None if reveal is None else shown_events(stream, reveal)
        known = self.warm is not None and set(stream.peers) <= set(self.warm.peers)
        warm = self.warm.select(peers=stream.peers) if self.warm is not None and known else None
        found = limited.judge(stream, warm=warm, shown=shown, rows=judged)
        before = None if warm is None else (warm, bench.phis(warm))
        setup = Setup(settings=_settings(bench), seed=seed, warm=before)
        choices = memory_choices(stream, limited.phis(stream), setup, reveal)
        direct = rows_of(stream, {name: choices[name] for name in DIRECT})
        direct |= self._with_verdicts(stream, limited.phis(stream), setup, reveal)
        direct |= self._in_words(limited, stream, setup) if words else {}
        places = limited.places(stream)
        whole = {EVERYWHERE + name: row for name, row in direct.items() if self.streams.judge is not None}
        return {**found, **{name: row.at(places) for name, row in direct.items()}, **whole}

    def _with_verdicts(
        self, stream: Stream, phis: FloatArray, setup: Setup, reveal: Reveal | None
    ) -> dict[str, TableRow]:
        """The judge outside the pool, alone and as evidence; its memory starts empty."""
        if self.streams.judge is None:
            return {}
        labels, scores = stream.labels(), verdict_scores(stream, self.streams.verdicts)
        return {
            "judge": row_of(None, judge_alone(labels, scores), stream.peers),
            "judged": weighed_row(stream, phis, {self.streams.judge: scores}, setup, reveal),
        }

    def _in_words(self, bench: BenchCenter, stream: Stream, setup: Setup) -> dict[str, TableRow]:
        """The judge that reads the record of every peer, and its U and the base judge's as evidence."""
        found, places = {}, bench.places(stream)
        labels, phis = stream.labels(), bench.phis(stream)
        for name, U in (("u", bench.base_utilities(stream)), ("words", bench.utilities_in_words(stream))):
            scores = np.full(labels.shape, np.nan)
            scores[places] = U
            found[name] = row_of(None, judge_alone(labels, scores), stream.peers)
            found[f"{name}-feature"] = weighed_row(stream, phis, {name: scores}, setup)
        return {name: found[name] for name in IN_WORDS}

    def outside(self, bench: BenchCenter, seed: int) -> dict[str, TableRow]:
        """Rows on the outside stream: one memory for all of it, or one for every benchmark."""
        assert self.streams.ood is not None
        stream = self.ordered(self.streams.ood, seed)
        if not self.per_benchmark:
            return self.rows(bench, stream, seed)
        judged = [stream.events[place] for place in self.places(stream, seed)]
        only = replace(bench, only=frozenset(event.id for event in judged))
        at: dict[str, list[tuple[int, float]]] = {}
        order: list[str] = []
        for name in stream.datasets:
            part = stream.select(datasets=[name])
            here = [event.id for event in part if event.id in (only.only or ())]
            if here:
                order += here
                rows = self.rows(only, part, seed)
                for row, found in ((n, r) for n, r in rows.items() if not n.startswith(EVERYWHERE)):
                    chosen = found.chosen if found.chosen is not None else np.full(len(here), -1)
                    at.setdefault(row, []).extend(zip(chosen.tolist(), found.correct.tolist(), strict=True))
        place = {event: i for i, event in enumerate(order)}
        index = [place[event.id] for event in judged]
        columns = {row: np.array(values)[index] for row, values in at.items()}
        return {row: row_of(v[:, 0].astype(np.intp), v[:, 1], stream.peers) for row, v in columns.items()}

    def controls(self, make: Callable[[int], Stream], *, more: bool = False) -> Rows:
        """Rows that need no center, on the judged events: those in hindsight are chosen on these, too."""

        def controlled(seed: int) -> dict[str, TableRow]:
            stream = make(seed)
            places = self.places(stream, seed, more=more)
            judged = replace(stream, events=tuple(stream.events[place] for place in places))
            rows = oracle_rows(judged, [dataset_name(event) for event in judged])
            majority = row_of(None, majority_correct(judged), stream.peers)
            return {**rows, MAJORITY: majority, "beta-b1": self._beta(stream).at(places)}

        return self._each(controlled)

    def feedback(self, bench: BenchCenter, stream: Stream) -> dict[float, dict[str, list[float]]]:
        """Figure 3: accuracies of four rows by share of labelled events, one per seed and mask."""
        names = ("base", "sigma", "m-route", "m-vote")
        known: dict[tuple[int, bytes], Mapping[str, TableRow]] = {}  # at 100 % all masks are one
        found: dict[float, dict[str, list[float]]] = {}
        for number, share in enumerate(self.shares):
            found[share] = {name: [] for name in names}
            for seed, mask in product(self.seeds, range(self.masks)):
                one, reveal = self.ordered(stream, seed), Share(share, seed + mask)
                key = seed, shown_events(one, reveal).tobytes()
                if key not in known:
                    known[key] = self.rows(bench, one, seed, reveal=reveal, judged=names[:2], more=True)
                for name in names:
                    found[share][name].append(known[key][name].accuracy)
            self.progress("feedback", number + 1, len(self.shares))
        return found

    def _each(self, make: Callable[[int], Mapping[str, TableRow]]) -> Rows:
        """The rows of every seed, by name."""
        found = [make(seed) for seed in self.seeds]
        return {name: tuple(rows[name] for rows in found) for name in found[0]}

    def _limit(self, more: bool) -> int | None:
        return self.judge if not more or self.judge_more is None else self.judge_more

    def _limited(self, bench: BenchCenter, seed: int, *, more: bool = False) -> BenchCenter:
        return replace(bench, after=0, limit=self._limit(more), seed=seed)

    def _beta(self, stream: Stream) -> TableRow:
        """Bayesian Beta B1 from Beta(1, 1), warmed on the training stream if it has these peers."""
        beta = Beta(len(stream.peers), B1_GAMMA)
        train, nothing = self.streams.train, np.zeros((len(stream), 1))
        if train is not None and set(stream.peers) <= set(train.peers):
            for labels in train.select(peers=stream.peers, seed=self.seeds[0]).labels():
                beta.learn(nothing[0], labels, 0)
        return rows_of(stream, play(stream, nothing, RouterPlayer("beta-b1", beta, stream.peers)))["beta-b1"]


def _settings(center: BenchCenter) -> Settings:
    given: dict[str, Any] = {"gamma_g": center.weights.gamma_g, "eta_g": center.weights.eta_g}
    return Settings(**given) if center.gamma == Settings().gamma else Settings(gamma=center.gamma, **given)
