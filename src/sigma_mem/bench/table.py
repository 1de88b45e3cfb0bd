"""What an experiment found, as a value that knows its rows, its remarks and its figures.

Every experiment returns a `Table`. Its `values` are what ``--json`` prints, its `grid` and `remarks` what a
person reads, and `write_report` puts all of it, with the figures, into a folder.
"""

import csv
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sigma_mem.bench import figures
from sigma_mem.bench.bootstrap import Interval, intervals
from sigma_mem.bench.center import JudgedEvents, better_than_sigma
from sigma_mem.bench.league import ORACLES, reference_row
from sigma_mem.bench.row import TableRow, successes
from sigma_mem.events import FloatArray
from sigma_mem.memory import replay
from sigma_mem.streams import Stream

Grid = tuple[list[str], list[list[str]]]  # header and rows
Rows = Mapping[str, TableRow]


@dataclass(frozen=True)
class Table(ABC):
    """The result of one experiment on a stream."""

    title: ClassVar[str]

    stream: Stream
    phis: FloatArray  # of the stream's events

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """The plain object that ``--json`` prints."""

    @abstractmethod
    def grid(self) -> Grid:
        """The table as text."""

    def remarks(self) -> list[str]:
        """Lines to print below the table."""
        return []

    def figures(self, folder: Path) -> list[Path]:
        """Draw the figures that belong to the table; return the files."""
        return []


def write_report(table: Table, folder: Path) -> list[Path]:
    """Write ``report.md``, ``table.csv`` and figures into the folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    header, rows = table.grid()
    drawn = table.figures(folder)
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    lines = [f"# {table.title}: {table.stream.name}", "", "Peers: " + ", ".join(table.stream.peers) + ".", ""]
    lines += ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]
    lines += ["", *table.remarks(), "", *(f"![{file.stem}]({file.name})\n" for file in drawn)]
    (folder / "report.md").write_text("\n".join(lines), encoding="utf-8")
    return [folder / "report.md", folder / "table.csv", *drawn]


@dataclass(frozen=True)
class LeagueTable(Table):
    """A table whose columns hold every mechanism's row, such as one column per attack ratio."""

    columns: Mapping[str, Rows]
    judged: JudgedEvents | None  # by a center; then all rows are about these events

    @property
    def events(self) -> int:
        """How many events the rows are about."""
        return len(self.stream) if self.judged is None else self.judged.events

    @property
    def center_values(self) -> dict[str, Any]:
        """What ``--json`` says of the center, if there is one."""
        return {} if self.judged is None else {"center": self.judged.values()}

    @property
    def shows_selections(self) -> bool:
        """Whether the grid says how often each peer was chosen."""
        return self.judged is not None

    def grid(self) -> Grid:
        """A line per mechanism: accuracy with half its interval in every column."""
        header = ["mechanism"]
        for name in self.columns:
            header += [name, f"{name} selections"] if self.shows_selections else [name]
        spans = {name: row_intervals(rows) for name, rows in self.columns.items()}
        body = []
        for mechanism in next(iter(self.columns.values())):
            line = [mechanism]
            for name, rows in self.columns.items():
                found, row = spans[name][mechanism], rows[mechanism]
                line.append(f"{row.accuracy:.2%} ± {50 * (found.high - found.low):.2f}")
                line += [selection_counts(row)] if self.shows_selections else []
            body.append(line)
        return header, body

    def remarks(self) -> list[str]:
        """How many events a center judged, and which rows are better than its own."""
        if self.judged is None:
            return []
        better = [f"- {name}: {better_than_sigma(rows)}." for name, rows in self.columns.items()]
        return ["", f"{self.judged.note}.", "", *better]

    def accuracy_figures(self, folder: Path) -> list[Path]:
        """Accuracy of every row that uses no oracle, then what the stream itself looks like."""
        columns = self.columns
        shown = [name for name in next(iter(columns.values())) if name not in ORACLES]
        groups = {c: {n: rows[n].accuracy for n in shown} for c, rows in columns.items()}
        spans = {c: row_intervals(rows) for c, rows in columns.items()}
        errors = {c: {n: (found[n].low, found[n].high) for n in shown} for c, found in spans.items()}
        ceiling = {c: rows["any-right"].accuracy for c, rows in columns.items()}
        title = f"{self.stream.name}: accuracy"
        drawn = figures.bars(groups, ceiling, errors, title, folder / "accuracy.png")
        return [drawn, *_stream_figures(folder, self.stream, self.phis)]


def row_intervals(rows: Rows, reference: str | None = None, seed: int = 0) -> dict[str, Interval]:
    """Intervals of every row, and of its difference to the reference row."""
    correct = {name: row.correct for name, row in rows.items()}
    return intervals(correct, reference or reference_row(rows), seed=seed)


def row_values(rows: Rows, seed: int = 0) -> dict[str, Any]:
    """Rows as plain values, each with its interval and its paired difference to the reference row.

    Where a center has rows, also to ``base``, its judge without memory, and to ``sigma``.
    """
    reference = reference_row(rows)
    references = [reference, *(name for name in ("base", "sigma") if name in rows)]
    spans = {name: row_intervals(rows, name, seed) for name in references}
    found = spans[reference]
    return {
        name: {
            "accuracy": round(row.accuracy, 6),
            "selections": dict(row.selections),
            "interval": [round(found[name].low, 6), round(found[name].high, 6)],
            **{f"vs_{other}": _difference(span[name]) for other, span in spans.items()},
        }
        for name, row in rows.items()
    }


def _difference(found: Interval) -> dict[str, Any]:
    span = [round(found.difference_low, 6), round(found.difference_high, 6)]
    return {"difference": round(found.difference, 6), "interval": span}


def selection_counts(row: TableRow) -> str:
    """How often each peer was chosen, in the peers' order."""
    return "/".join(str(count) for count in row.selections.values())


def standing(rows: Rows) -> str:
    """One honest sentence: who is on top among those that use no oracle, and where adaptive stands."""
    fair = {name: row.accuracy for name, row in rows.items() if name not in ORACLES}
    best = max(fair, key=lambda name: fair[name])
    others = {name: a for name, a in fair.items() if name != "adaptive"}
    rival = max(others, key=lambda name: others[name])
    gap = 100 * (fair["adaptive"] - others[rival])
    where = "above" if gap > 0 else "level with" if gap == 0 else "below"
    return (
        f"best without an oracle: {best} {fair[best]:.2%}; adaptive is {abs(gap):.2f} points {where} {rival}"
    )


def _stream_figures(folder: Path, stream: Stream, phis: FloatArray) -> list[Path]:
    """Reliability over time, peer × domain, and G, of the stream as it is."""
    labels, peers, name = stream.labels(), list(stream.peers), stream.name
    past = replay(phis, labels)
    rate = 50 + 50 * past.total / np.maximum(past.labels, 1e-12)
    domains = np.asarray([event.domain or "all" for event in stream], dtype=str)
    names = [str(domain) for domain in np.unique(domains)]
    right = _by_domain(successes(labels), domains, names)
    believed = np.array([past.prob[domains == domain][-50:].mean(axis=0) for domain in names]).T
    return [
        figures.curves(
            {peer: rate[20:, i] for i, peer in enumerate(peers)},
            "event",
            "decayed rate of being right (%)",
            f"{name}: reliability over time",
            folder / "reliability.png",
        ),
        figures.heatmap(right, peers, names, f"{name}: right in each domain (%)", folder / "domains.png"),
        figures.heatmap(
            believed, peers, names, f"{name}: p̂ at the end, from φ alone (%)", folder / "believed.png"
        ),
        figures.heatmap(
            past.G[-1], peers, peers, f"{name}: relation G", folder / "relation.png", signed=True
        ),
    ]


def _by_domain(r: FloatArray, domains: np.ndarray[Any, Any], names: Sequence[str]) -> FloatArray:
    """Mean of what is known in every domain, (P, domains); 0 where a peer was never there."""
    known = r == r  # NaN differs from itself
    total = np.array([np.where(known, r, 0.0)[domains == name].sum(axis=0) for name in names])
    count = np.array([known[domains == name].sum(axis=0) for name in names])
    rate: FloatArray = (total / np.maximum(count, 1)).T
    return rate
