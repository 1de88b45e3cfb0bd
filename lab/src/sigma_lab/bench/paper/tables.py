"""The paper's tables: attack, more peers, outside domains, mechanisms, the judge itself, and the peers.

Every cell holds what was found here and what the paper prints in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.attack import attack_plan, counterfactual
from sigma_lab.bench.paper.inputs import (
    PEERS,
    PaperStreams,
    dataset_name,
    figure,
    in_order,
    paper_center,
    subset_name,
)
from sigma_lab.bench.paper.play import EVERYWHERE, VERDICTS, CenterRows, PaperPlay, Rows, Seeded
from sigma_lab.bench.row import intervals, successes
from sigma_lab.bench.table import selection_counts
from sigma_mem.events import Event, FloatArray
from sigma_mem.streams import Stream

LABELS = {
    "base": "base", "base-named": "base, peer named", "sigma-no-g": "Σ w/o G", "sigma": "Σ w/ G",
    "m-route": "M-route", "m-vote": "M-vote", "majority": "majority", "adaptive": "adaptive (ours)",
    "beta-b1": "Beta B1, warmed", "random": "random peer", "best-fixed": "best fixed peer",
    "domain-oracle": "oracle reputation",
    "judge": "judge outside the pool", "judged": "adaptive with its verdicts",
    "words": "base, told the record in words", "u-feature": "adaptive with U",
    "words-feature": "adaptive with U in words",
}  # fmt: skip
SMALLEST = "Qwen3-0.6B"  # whose figures are compared with those of a center that the paper does not have
_WORDS = {3: "counterfactual", 4: "four", 5: "five"}


@dataclass(frozen=True, slots=True)
class Cell:
    """Ours and the paper's: two numbers in percent, or two texts."""

    ours: float | str | None
    paper: float | str | None = None
    half: float | None = None  # of the 95 % interval over events
    spread: tuple[float, float] | None = None  # the lowest and the highest seed
    best: bool = False  # the only best of its group

    def text(self) -> str:
        """``61.20 ± 2.1 [60.0 … 62.4] (63.87)``: ours, its interval, the seeds, and the paper's."""
        own = _shown(self.ours) + ("" if self.half is None else f" ± {self.half:.1f}")
        own += "" if self.spread is None else " [{:.1f} … {:.1f}]".format(*self.spread)
        return own if self.paper is None else f"{own} ({_shown(self.paper)})"


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table or figure of the paper."""

    key: str  # file name and key in the JSON object
    title: str
    label: str  # of the paper's LaTeX source; empty if it has no such table
    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    notes: Sequence[str] = field(default_factory=tuple)

    def texts(self, *, bold: bool = False) -> list[list[str]]:
        """Rows as texts; the best cell of a group may be bold."""
        return [
            [name, *(f"**{cell.text()}**" if bold and cell.best else cell.text() for cell in cells)]
            for name, cells in self.rows
        ]

    def values(self) -> dict[str, Any]:
        """The plain object that JSON keeps."""
        keys = ("ours", "paper", "half", "spread")
        rows = [
            {"row": name, "cells": [{k: getattr(cell, k) for k in keys} for cell in cells]}
            for name, cells in self.rows
        ]
        about = {"title": self.title, "label": self.label, "columns": list(self.header[1:])}
        return {**about, "rows": rows, "notes": list(self.notes)}


def accuracy_cell(
    rows: Seeded, paper: float | None = None, here: Sequence[NDArray[np.bool_]] | None = None
) -> Cell:
    """Accuracy over the seeds, on some of the events only if they are given."""
    right = [row.correct for row in rows]
    if here is not None:
        right = [one[mask] for one, mask in zip(right, here, strict=True)]
    if not all(len(one) for one in right):
        return Cell(None, paper)
    each = [100 * float(one.mean()) for one in right]
    errors = [100 * float(one.std()) / np.sqrt(len(one)) for one in right]
    spread = (min(each), max(each)) if len(each) > 1 else None
    return Cell(float(np.mean(each)), paper, 1.96 * float(np.mean(errors)), spread)


def selection_cell(rows: Seeded, paper: Iterable[int] | None = None) -> Cell:
    """How often each peer was chosen, with the first seed; a majority chooses nobody."""
    ours = None if rows[0].chosen is None else selection_counts(rows[0])
    return Cell(ours, None if paper is None else "/".join(map(str, paper)))


def best_in(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, with the highest number marked, unless two are equal.

    >>> [cell.best for cell in best_in([Cell(1.0), Cell(2.0), Cell("3/4"), Cell(None)])]
    [False, True, False, False]
    >>> [cell.best for cell in best_in([Cell(2.001), Cell(2.0)])]  # both are printed as 2.00
    [False, False]
    """
    shown = [round(cell.ours, 2) if isinstance(cell.ours, float) else -1.0 for cell in cells]
    alone = shown.count(max(shown)) == 1 and len(shown) > 1
    return [replace(c, best=alone and n == max(shown) >= 0) for c, n in zip(cells, shown, strict=True)]


def best_of(rows: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """Rows of equal length, with the highest number of every column marked."""
    columns = [best_in(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class PaperTables:
    """All tables of some centers, from what they chose."""

    play: PaperPlay
    centers: Sequence[CenterRows]

    def beside(self, center: CenterRows) -> str:
        """The center of the paper whose figures are printed with this one's."""
        return paper_center(center.name) or SMALLEST

    # --- Table 1 and its appendix ---

    def counterfactual(self) -> list[PaperTable]:
        """Table 1, and the appendix table with the direct reads and B1."""
        first = self._attack_table(
            "table-1", "Table 1: counterfactual attack", "tab:CF_results",
            ("base", "base-named", "sigma-no-g", "sigma"), controls=False,
        )  # fmt: skip
        more = self._attack_table(
            "table-cf-readouts", "Direct reads under attack", "tab:CF_Mresults",
            ("base", "sigma-no-g", "sigma", "m-route", "adaptive"), controls=True,
        )  # fmt: skip
        in_words = self._attack_table(
            "table-words", "The memory in words, and U as evidence", "",
            ("base", "words", "sigma", "adaptive", "u-feature", "words-feature"), controls=False,
        )  # fmt: skip
        return [first, more, *([in_words] if self.play.words else [])]

    def _attack_table(
        self, key: str, title: str, label: str, names: Sequence[str], *, controls: bool
    ) -> PaperTable:
        header, lines = ["row"], []
        for ratio in self.play.ratios:
            header += [f"CF@{100 * ratio:g}", "/".join(f"p{i + 1}" for i in range(self.play.streams.trained))]
        for center in self.centers:
            by_ratio: list[Rows] = [
                {**center.attacked[r], **({"base-named": center.named[r]} if center.named else {})}
                for r in self.play.ratios
            ]
            shown = [name for name in names if name in by_ratio[0]]
            cells = best_of([self._attack_cells(name, by_ratio, self.beside(center)) for name in shown])
            lines += [(f"{center.name}: {LABELS[n]}", row) for n, row in zip(shown, cells, strict=True)]
        if controls:
            found = [self.play.controls(partial(self.play.attack, ratio)) for ratio in self.play.ratios]
            lines += [(LABELS[name], self._attack_cells(name, found, "")) for name in ("beta-b1", "majority")]
        return PaperTable(key, title, label, header, lines, self._notes(self.play.attack(0.0, self._first)))

    def _attack_cells(self, name: str, by_ratio: Sequence[Rows], paper: str) -> list[Cell]:
        """Cells of every ratio. The paper's base saw who answered: its figures belong to that row."""
        named = "base-named" in by_ratio[0]
        printed = {"base-named": "base", "base": "" if named else "base"}.get(name, name)
        cells = []
        for ratio, rows in zip(self.play.ratios, by_ratio, strict=True):
            said = figure("cf", paper, printed, f"{100 * ratio:g}") or {}
            cells.append(accuracy_cell(rows[name], said.get("accuracy")))
            cells.append(selection_cell(rows[name], said.get("selections")))
        return cells

    # --- Table 2 ---

    def more_peers(self) -> list[PaperTable]:
        """Table 2: pools with peers that were not trained with."""
        header = ["center", *(f"CF@{100 * r:g} {what}" for r in self.play.ratios for what in ("base", "Σ"))]
        lines = []
        for size in self.play.streams.larger:
            for center in self.centers:
                cells = []
                for ratio in self.play.ratios:
                    rows = center.pools[size, ratio]
                    said = figure("peers", str(size), self.beside(center), f"{100 * ratio:g}") or {}
                    cells += best_in([accuracy_cell(rows[n], said.get(n)) for n in ("base", "sigma")])
                lines.append((f"{size} peers: {center.name}", cells))
        if not lines:
            return []
        notes = self._notes(self.play.attack(0.0, self._first, self.play.streams.larger[-1]), more=True)
        return [PaperTable("table-2", "Table 2: more peers", "tab:scaling_results", header, lines, notes)]

    def verdicts(self) -> list[PaperTable]:
        """A judge outside the pool, under attack: alone, and as evidence that the memory weighs."""
        judge = self.play.streams.judge
        if judge is None or not self.centers:
            return []
        sizes, lines = (self.play.streams.trained, *self.play.streams.larger), []
        for size in sizes:
            for center in self.centers:
                by_ratio = [center.pools.get((size, r), center.attacked[r]) for r in self.play.ratios]
                names = ("m-route", "adaptive", *VERDICTS)
                cells = best_of([[accuracy_cell(rows[EVERYWHERE + n]) for rows in by_ratio] for n in names])
                shown = [f"{size} peers, φ of {center.name}: {LABELS[name]}" for name in names]
                lines += list(zip(shown, cells, strict=True))
        events = len(self.play.attack(0.0, self._first))
        notes = (
            f"The judge is {judge}: an answer that equals its own scores 1, another one 0. Alone it chooses "
            "an answer with its highest score, ties in expectation.",
            f"All {events:,} events judged, since no center is asked here. ± half of the 95 % interval.",
        )
        header = ["row", *(f"CF@{100 * ratio:g}" for ratio in self.play.ratios)]
        return [PaperTable("verdicts", "A judge outside the pool", "", header, lines, notes)]

    # --- Tables 3, 4 and the appendix by benchmark ---

    @property
    def _judges(self) -> tuple[str, ...]:
        return () if self.play.streams.judge is None else VERDICTS

    @property
    def _first(self) -> int:
        return self.play.seeds[0]

    @cached_property
    def _ood(self) -> Stream:
        stream = self.play.streams.ood
        assert stream is not None  # computed only if there is one
        return stream

    @cached_property
    def _controls(self) -> Rows:
        return self.play.controls(lambda seed: self.play.ordered(self._ood, seed))

    def _parts(self, part: Callable[[Event], str | None]) -> dict[str, list[NDArray[np.bool_]]]:
        """Which of the judged events belong to every benchmark or subset, by seed."""
        names = [[part(event) for event in events] for events in self.play.judged(self._ood)]
        found = in_order([name for one in names for name in one if name is not None])
        return {name: [np.array([n == name for n in one]) for one in names] for name in found}

    def outside(self) -> list[PaperTable]:
        """Tables 3 and 4, and a table by benchmark for every center."""
        parts = self._parts(dataset_name)
        header = [
            "center",
            *(f"{n} ({int(m[0].sum())}) {k}" for n, m in parts.items() for k in ("base", "Σ")),
        ]
        lines = []
        for center in self.centers:
            cells = []
            for name, here in parts.items():
                said = figure("readouts", self.beside(center), name) or {}
                pair = [accuracy_cell(center.outside[n], said.get(n), here) for n in ("base", "sigma")]
                cells += best_in(pair)
            lines.append((center.name, cells))
        third = PaperTable(
            "table-3", "Table 3: outside the training domains", "tab:generalization_results", header, lines,
            self._notes(self._ood),
        )  # fmt: skip
        return [third, self._mechanisms(), *(self._by_benchmark(center, parts) for center in self.centers)]

    def _mechanisms(self) -> PaperTable:
        names = ("base", "sigma", "m-route", "m-vote", "adaptive", *self._judges)
        lines = []
        for center in self.centers:
            said = figure("mechanisms", self.beside(center)) or {}
            own = [accuracy_cell(center.outside[name], said.get(name)) for name in names]
            lines.append((center.name, best_in(own)))
        for name in ("random", "majority", "best-fixed", "domain-oracle", "beta-b1"):
            printed = "oracle" if name == "domain-oracle" else name
            cell = accuracy_cell(self._controls[name], figure("mechanisms", printed))
            place = 3 if name == "majority" else 2
            lines.append((LABELS[name], [cell if i == place else Cell("") for i in range(len(names))]))
        notes = (
            *self._notes(self._ood),
            "Best fixed peer and oracle reputation are chosen in hindsight, on the judged events.",
            "Overall is pooled over events, as in the paper; a mean over benchmarks is another number.",
            *(self._added(center) for center in self.centers),
        )
        header = ["center", *(LABELS[name] for name in names)]
        title = "Table 4: selection mechanisms, overall"
        return PaperTable("table-4", title, "tab:coordination_roles", header, lines, notes)

    def _by_benchmark(
        self, center: CenterRows, parts: Mapping[str, Sequence[NDArray[np.bool_]]]
    ) -> PaperTable:
        names = ("base", "sigma", "majority", "m-route", "m-vote", "adaptive", *self._judges)
        rows: Rows = {**self._controls, **center.outside}
        everything = [np.full(len(row.correct), True) for row in rows["base"]]
        lines = []
        for part, here in [*parts.items(), ("Overall", everything)]:
            said = figure("readouts", self.beside(center), part) or {}
            own = best_in([accuracy_cell(rows[name], said.get(name), here) for name in names])
            lines.append((part, [_count(int(here[0].sum()), said.get("n")), *own]))
        slug = "".join(c if c.isalnum() else "-" for c in center.name)
        header = ["benchmark", "N", *(LABELS[n] for n in names)]
        title = f"By benchmark: {center.name}"
        return PaperTable(f"readouts-{slug}", title, "tab:m_readout", header, lines, self._notes(self._ood))

    def superglue(self) -> dict[str, dict[str, tuple[float, float, float]]]:
        """The SuperGLUE figure: base, sigma and the ceiling of every subset with its events, by center."""
        parts = self._parts(subset_name)
        found: dict[str, dict[str, tuple[float, float, float]]] = {}
        for center in self.centers if parts else ():
            rows: Rows = {**self._controls, **center.outside}
            found[center.name] = {
                f"{name} ({int(here[0].sum())})": tuple(
                    _number(accuracy_cell(rows[n], here=here).ours) for n in ("base", "sigma", "any-right")
                )  # type: ignore[misc]
                for name, here in parts.items()
            }
        return found

    # --- the judge itself ---

    def judges(self) -> PaperTable:
        """How well the unsteered judge distinguishes right answers from wrong ones."""
        names = [name for name in ("CF@0", "outside") if any(name in center.auc for center in self.centers)]
        lines = []
        for center in self.centers:
            lines.append((center.name, [_auc_cell(value) for name in names for value in center.auc[name]]))
            if center.named:
                by_name = [center.named_auc if name == "CF@0" else (None, None) for name in names]
                lines.append((f"{center.name}, peer named", [_auc_cell(v) for pair in by_name for v in pair]))
        header = ["judge", *(f"{name} {what}" for name in names for what in ("AUC", "within a question"))]
        streams = {"CF@0": self.play.streams.cf, "outside": self.play.streams.ood}
        judged = [f"{n}: {self._judged(s)}" for n, s in streams.items() if n in names and s is not None]
        notes = (
            "AUC: probability that a right answer gets the higher U than a wrong one; 0.5 is blind. "
            "Within a question: among the answers to one question, which is what a selection needs.",
            f"Events judged: {', '.join(judged)}, with the first seed.",
        )
        return PaperTable("judge", "The judge without memory", "", header, lines, notes)

    def _added(self, center: CenterRows) -> str:
        """One sentence: what the steered judge adds to the memory's own reads, with paired intervals."""
        rows, others = {**self._controls, **center.outside}, ("base", "m-route", "m-vote", "majority")
        pooled = {n: np.concatenate([row.correct for row in rows[n]]) for n in ("sigma", *others)}
        found = intervals(pooled, "sigma", seed=self._first)
        said = [
            f"{LABELS[n]} {_points(found[n].difference)} ({_points(found[n].difference_high)} … "
            f"{_points(found[n].difference_low)})"
            for n in others
        ]
        return f"{center.name}, Σ w/ G less: {'; '.join(said)} points, paired 95 % intervals."

    def _judged(self, stream: Stream, *, more: bool = False) -> str:
        count = min(len(stream), self.play.streams.limit or len(stream))
        limit = self.play._limit(more)
        return f"{min(count, limit or count):,} of {count:,}"

    def _notes(self, stream: Stream, *, more: bool = False) -> tuple[str, ...]:
        seeds = len(self.play.seeds)
        how = (
            f"{self._judged(stream, more=more)} events judged; every row is about these. Ours ± half of the "
        )
        how += "95 % interval over events"
        how += f", mean [lowest … highest] of {seeds} seeds" if seeds > 1 else ""
        notes = [how + "; in brackets the paper's. Bold is the highest, if it is alone."]
        foreign = [center.name for center in self.centers if paper_center(center.name) is None]
        if foreign:
            notes.append(
                f"The paper has no {', '.join(foreign)}: in brackets are the figures of {SMALLEST}, its "
                "smallest center, on other peers and other answers. They show the shape, not a target."
            )
        return tuple(notes)


# --- what the streams look like ---


def peer_tables(play: PaperPlay) -> list[PaperTable]:
    """Peer accuracy on every stream, and the attack's strong peers and eligible events."""
    streams, tables = play.streams, []
    if streams.train is not None:
        label = "tab:training_peer_accuracy"
        tables.append(_accuracies("peers-train", "Peer accuracy, training", label, streams.train, "train"))
    sizes = (streams.trained, *streams.larger) if streams.cf is not None else ()
    tables += [_under_attack(play, size) for size in sizes]
    if sizes:
        tables.append(_attack(play, sizes))
    if streams.ood is not None:
        label = "tab:ood_peer_accuracy"
        tables.append(_accuracies("peers-ood", "Peer accuracy, outside", label, streams.ood, "ood"))
        parts = tuple(event for event in streams.ood if subset_name(event) is not None)
        if parts:
            glue, label = replace(streams.ood, events=parts), "tab:superglue_peer_breakdown"
            title = "Peer accuracy, SuperGLUE"
            tables.append(_accuracies("peers-superglue", title, label, glue, "superglue", subset_name))
    return [replace(table, notes=(*table.notes, *_foreign_peers(streams))) for table in tables]


def _foreign_peers(streams: PaperStreams) -> tuple[str, ...]:
    foreign = [peer for peer in streams.peers if peer not in PEERS]
    if not foreign:
        return ()
    return (f"In brackets the paper's own peers ({', '.join(PEERS)}), in its order; ours are others.",)


def _accuracies(
    key: str,
    title: str,
    label: str,
    stream: Stream,
    paper: str,
    part: Callable[[Event], str | None] = dataset_name,
) -> PaperTable:
    """A line per benchmark or subset, and all of them pooled by events."""
    names = np.array([part(event) for event in stream], dtype=str)
    r = successes(stream.labels())
    groups = [(name, names == name) for name in in_order(names.tolist())]
    rows = [
        (name, _line(r[here], figure("peer_accuracy", paper, name)))
        for name, here in [*groups, ("Overall", np.full(len(names), True))]
    ]
    answered = (~np.isnan(r)).sum(axis=0)
    given = [f"{peer} {n:,}" for peer, n in zip(stream.peers, answered, strict=True) if n < len(r)]
    notes = (f"Of the answers that a peer gave: {', '.join(given)} of {len(r):,}.",) if given else ()
    return PaperTable(key, title, label, ["benchmark", "N", *stream.peers], rows, notes)


def _under_attack(play: PaperPlay, size: int) -> PaperTable:
    pool, rows = play.streams.pool(size), []
    for ratio in play.ratios:
        name = f"CF@{100 * ratio:g}"
        attacked = counterfactual(pool, ratio, seed=play.seeds[0], partner=play.partner)
        rows.append((name, _line(successes(attacked.labels()), figure("peer_accuracy", f"cf-{size}", name))))
    label = f"tab:{_WORDS[size]}_peer_accuracy" if size in _WORDS else ""
    header = ["attack", "N", *pool.peers]
    note = f"The strong peer is swapped with a wrong one: {play.partner}."
    return PaperTable(
        f"peers-cf-{size}", f"Peer accuracy under attack, {size} peers", label, header, rows, (note,)
    )


def _attack(play: PaperPlay, sizes: Sequence[int]) -> PaperTable:
    """The strong peer of every benchmark, and how many of its events can be attacked, in every pool."""
    seed, streams = play.seeds[0], play.streams
    plans = [
        {a.unit: a for a in attack_plan(streams.pool(n), seed=seed, partner=play.partner)} for n in sizes
    ]
    units = list(dict.fromkeys(unit for plan in plans for unit in plan))
    events = [event.dataset for event in streams.pool(streams.trained)]
    rows = []
    for unit in units:
        cells = [Cell(str(events.count(unit)) if unit in events else "–")]
        for plan in plans:
            found = plan.get(unit)
            cells.append(Cell(None if found is None else found.strong))
            cells.append(Cell(None if found is None else str(len(found.eligible))))
        rows.append((unit or "all", cells))
    header = ["benchmark", "N", *(f"{what}, {n} peers" for n in sizes for what in ("strong", "eligible"))]
    note = "Strong: best on clean labels. Eligible: the strong peer is right and another one wrong."
    return PaperTable("attack", "Strong peers and eligible events of the attack", "", header, rows, (note,))


def _line(r: FloatArray, published: Mapping[str, Any] | None) -> list[Cell]:
    """Number of events, and percent right of what every peer answered; None if a peer gave no answer."""
    known = [column[~np.isnan(column)] for column in r.T]
    own = [float(100 * column.mean()) if len(column) else None for column in known]
    paper = list(published["accuracy"]) if published else []
    paper += [None] * (len(own) - len(paper))
    cells = best_in([Cell(o, p) for o, p in zip(own, paper, strict=False)])
    return [_count(len(r), published["n"] if published else None), *cells]


def _count(ours: int, paper: int | None) -> Cell:
    return Cell(f"{ours:,}", None if paper is None else f"{paper:,}")


def _points(behind: float) -> str:
    """What a row is ahead by, in percentage points, if another is behind by this share.

    >>> _points(1e-9), _points(-0.1)
    ('+0.00', '+10.00')
    """
    return f"{0.0 - round(100 * behind, 2):+.2f}"


def _auc_cell(value: float | None) -> Cell:
    return Cell(None if value is None else f"{value:.3f}")


def _number(value: float | str | None) -> float:
    return value if isinstance(value, float) else 0.0


def _shown(value: float | str | None) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.2f}"
