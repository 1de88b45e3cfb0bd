"""The paper's tables of choices: attack, more peers, outside domains, mechanisms, and the judge itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.bootstrap import intervals
from sigma_lab.bench.paper.cells import (
    Cell,
    PaperTable,
    accuracy_cell,
    best_in,
    best_of,
    selection_cell,
)
from sigma_lab.bench.paper.inputs import dataset_name, in_order, subset_name
from sigma_lab.bench.paper.play import CenterRows, PaperPlay, Rows
from sigma_lab.bench.paper.published import figure, paper_center
from sigma_lab.bench.row import TableRow
from sigma_mem.events import Event
from sigma_mem.streams import Stream

LABELS = {
    "base": "base", "base-named": "base, peer named", "sigma-no-g": "Σ w/o G", "sigma": "Σ w/ G",
    "m-route": "M-route", "m-vote": "M-vote", "majority": "majority", "adaptive": "adaptive (ours)",
    "beta-b1": "Beta B1, warmed", "random": "random peer", "best-fixed": "best fixed peer",
    "oracle": "oracle reputation",
}  # fmt: skip
SMALLEST = "Qwen3-0.6B"  # whose figures stand beside those of a center that the paper does not have


@dataclass(frozen=True)
class PaperTables:
    """All tables of some centers, from what they chose."""

    play: PaperPlay
    centers: Sequence[CenterRows]

    def beside(self, center: CenterRows) -> str:
        """The center of the paper whose figures stand beside this one's."""
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
        return [first, more]

    def _attack_table(
        self, key: str, title: str, label: str, names: Sequence[str], *, controls: bool
    ) -> PaperTable:
        header, lines = ["row"], []
        for ratio in self.play.ratios:
            header += [f"CF@{100 * ratio:g}", "/".join(f"p{i + 1}" for i in range(self.play.streams.trained))]
        for center in self.centers:
            by_ratio = [self._rows_under(center, ratio) for ratio in self.play.ratios]
            shown = [name for name in names if name in by_ratio[0]]
            cells = best_of([self._attack_cells(name, by_ratio, self.beside(center)) for name in shown])
            lines += [(f"{center.name}: {LABELS[n]}", row) for n, row in zip(shown, cells, strict=True)]
        if controls:
            found = [self.play.controls(self.play.attack(ratio)) for ratio in self.play.ratios]
            lines += [(LABELS[name], self._attack_cells(name, found, "")) for name in ("beta-b1", "majority")]
        return PaperTable(key, title, label, header, lines, self._notes(self.play.attack(0.0), self.centers))

    def _attack_cells(self, name: str, by_ratio: Sequence[Rows], paper: str) -> list[Cell]:
        cells = []
        for ratio, rows in zip(self.play.ratios, by_ratio, strict=True):
            said = figure("cf", paper, name, f"{100 * ratio:g}") or {}
            chosen = None if rows[name].chosen is None else rows[name]  # a majority chooses nobody
            cells.append(accuracy_cell(rows[name], said.get("accuracy")))
            cells.append(selection_cell(chosen, said.get("selections")))
        return cells

    def _rows_under(self, center: CenterRows, ratio: float) -> Rows:
        named = {"base-named": center.named[ratio]} if center.named else {}
        return {**center.attacked[ratio], **named}

    # --- Table 2 ---

    def more_peers(self) -> list[PaperTable]:
        """Table 2: pools with peers that were not trained with."""
        header = ["center"]
        for ratio in self.play.ratios:
            header += [f"CF@{100 * ratio:g} base", f"CF@{100 * ratio:g} Σ"]
        lines = []
        for size in self.play.streams.larger:
            for center in self.centers:
                cells = []
                for ratio in self.play.ratios:
                    rows = center.pools[size, ratio]
                    said = figure("peers", str(size), self.beside(center), f"{100 * ratio:g}") or {}
                    pair = [accuracy_cell(rows[name], said.get(name)) for name in ("base", "sigma")]
                    cells += best_in(pair)
                lines.append((f"{size} peers: {center.name}", cells))
        if not lines:
            return []
        largest = self.play.streams.pool(self.play.streams.larger[-1])
        notes = self._notes(largest, self.centers, more=True)
        return [PaperTable("table-2", "Table 2: more peers", "tab:scaling_results", header, lines, notes)]

    # --- Tables 3, 4 and the appendix by benchmark ---

    @cached_property
    def _ood(self) -> Stream:
        stream = self.play.streams.ood
        assert stream is not None  # asked for only where there is one
        return stream

    @cached_property
    def _controls(self) -> dict[str, TableRow]:
        return self.play.controls(self._ood)

    def _rows_outside(self, center: CenterRows) -> Rows:
        return {**self._controls, **center.outside}

    def _parts(self, part: Callable[[Event], str | None]) -> dict[str, NDArray[np.bool_]]:
        """Which of the judged events belong to every benchmark or subset."""
        events = [self._ood.events[place] for place in self.play.places(self._ood)]
        names = [part(event) for event in events]
        found = in_order([name for name in names if name is not None])
        return {name: np.array([one == name for one in names]) for name in found}

    def outside(self) -> list[PaperTable]:
        """Tables 3 and 4, and a table by benchmark for every center."""
        parts = self._parts(dataset_name)
        header = ["center", *(f"{name} {kind}" for name in parts for kind in ("base", "Σ"))]
        lines = []
        for center in self.centers:
            rows, cells = self._rows_outside(center), []
            for name, here in parts.items():
                said = figure("readouts", self.beside(center), name) or {}
                pair = [Cell(_percent(rows[n], here), said.get(n)) for n in ("base", "sigma")]
                cells += best_in(pair)
            lines.append((center.name, cells))
        notes = self._notes(self._ood, self.centers)
        third = PaperTable(
            "table-3",
            "Table 3: outside the training domains",
            "tab:generalization_results",
            header,
            lines,
            notes,
        )
        return [third, self._mechanisms(), *(self._by_benchmark(center, parts) for center in self.centers)]

    def _mechanisms(self) -> PaperTable:
        names = ("base", "sigma", "m-route", "m-vote", "adaptive")
        lines = []
        for center in self.centers:
            rows, said = self._rows_outside(center), figure("mechanisms", self.beside(center)) or {}
            own = [accuracy_cell(rows[name], said.get(name)) for name in names]
            lines.append((center.name, best_in(own)))
        empty = Cell("")
        for name in ("random", "majority", "best-fixed", "oracle", "beta-b1"):
            cell = accuracy_cell(self._controls[name], figure("mechanisms", name))
            place = 3 if name == "majority" else 2
            lines.append((LABELS[name], [cell if i == place else empty for i in range(len(names))]))
        notes = (
            "Overall is pooled over events, as in the paper; a mean over benchmarks is another number.",
            *(self._added(center) for center in self.centers),
        )
        header = ["center", *(LABELS[name] for name in names)]
        return PaperTable(
            "table-4",
            "Table 4: selection mechanisms, overall",
            "tab:coordination_roles",
            header,
            lines,
            notes,
        )

    def _by_benchmark(self, center: CenterRows, parts: Mapping[str, NDArray[np.bool_]]) -> PaperTable:
        names = ("base", "sigma", "majority", "m-route", "m-vote", "adaptive")
        rows, paper = self._rows_outside(center), self.beside(center)
        everything = np.full(len(next(iter(parts.values()))), True)
        lines = []
        for part, here in [*parts.items(), ("Overall", everything)]:
            said = figure("readouts", paper, part) or {}
            own = best_in([Cell(_percent(rows[name], here), said.get(name)) for name in names])
            lines.append((part, [Cell(f"{int(here.sum()):,}", f"{said['n']:,}" if said else None), *own]))
        slug = "".join(c if c.isalnum() else "-" for c in center.name)
        return PaperTable(
            f"readouts-{slug}",
            f"By benchmark: {center.name}",
            "tab:m_readout",
            ["benchmark", "N", *(LABELS[n] for n in names)],
            lines,
            self._notes(self._ood, [center]),
        )

    def superglue(self) -> dict[str, dict[str, tuple[float, float, float]]]:
        """The SuperGLUE figure: base, sigma and the ceiling of every subset, by center."""
        parts = self._parts(subset_name)
        return {
            center.name: {
                name: tuple(
                    _percent(self._rows_outside(center)[n], here) for n in ("base", "sigma", "any-right")
                )  # type: ignore[misc]
                for name, here in parts.items()
            }
            for center in self.centers
            if parts
        }

    # --- the judge itself ---

    def judges(self) -> PaperTable:
        """How well the unsteered judge tells right answers from wrong ones."""
        names = [name for name in ("CF@0", "outside") if any(name in center.auc for center in self.centers)]
        lines = []
        for center in self.centers:
            cells = [_auc_cell(value) for name in names for value in center.auc[name]]
            lines.append((center.name, cells))
            if center.named:
                by_name = [center.named_auc if name == "CF@0" else (None, None) for name in names]
                lines.append((f"{center.name}, peer named", [_auc_cell(v) for pair in by_name for v in pair]))
        header = ["judge", *(f"{name} {what}" for name in names for what in ("AUC", "within a question"))]
        note = (
            "AUC: probability that a right answer gets the higher U than a wrong one; 0.5 is blind. "
            "Within a question: among the answers to one question, which is what a selection needs."
        )
        return PaperTable("judge", "The judge without memory", "", header, lines, (note,))

    def _added(self, center: CenterRows) -> str:
        """One sentence: what the steered judge adds to the memory's own reads, with paired intervals."""
        rows = self._rows_outside(center)
        others = ("base", "m-route", "m-vote", "majority")
        found = intervals(
            {name: rows[name].correct for name in ("sigma", *others)}, "sigma", seed=self.play.seed
        )
        said = [
            f"{LABELS[n]} {_points(found[n].difference)} ({_points(found[n].difference_high)} … "
            f"{_points(found[n].difference_low)})"
            for n in others
        ]
        return f"{center.name}, Σ w/ G less: {'; '.join(said)} points, paired 95 % intervals."

    def _notes(self, stream: Stream, centers: Sequence[CenterRows], *, more: bool = False) -> tuple[str, ...]:
        judged = len(self.play.places(stream, more=more))
        notes = [f"{judged:,} of {len(stream):,} events judged; every row is about these. Ours (paper)."]
        foreign = [center.name for center in centers if paper_center(center.name) is None]
        if foreign:
            notes.append(
                f"The paper has no {', '.join(foreign)}: beside it stand the figures of {SMALLEST}, its "
                "smallest center, on other peers and other answers. They show the shape, not a target."
            )
        return tuple(notes)


def _percent(row: TableRow, here: NDArray[np.bool_]) -> float:
    return float(100 * row.correct[here].mean()) if here.any() else 0.0


def _points(behind: float) -> str:
    """What a row is ahead by, in percentage points, where another is behind by this share."""
    return f"{0.0 - round(100 * behind, 2):+.2f}"


def _auc_cell(value: float | None) -> Cell:
    return Cell(None if value is None else f"{value:.3f}")
