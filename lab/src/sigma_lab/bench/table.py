"""What an experiment found, as a value that knows its rows, its remarks and its figures.

Every experiment returns a `Table`. Its `values` are what ``--json`` prints, its `grid` and `remarks` what a
person reads, and `write_report` puts all of it, with the figures, into a folder.
"""

import csv
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sigma_lab.bench import figures
from sigma_lab.bench.bootstrap import Interval, intervals
from sigma_lab.bench.center import JudgedEvents, better_than_sigma
from sigma_lab.bench.league import ORACLES, reference_row
from sigma_lab.bench.row import TableRow, successes
from sigma_lab.replay import replay
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

Grid = tuple[list[str], list[list[str]]]  # header and rows
Rows = Mapping[str, TableRow]


@dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """The result of one experiment on a stream."""

    title: ClassVar[str]

    stream: Stream
    judged: JudgedEvents | None = None  # by a center; then all rows are about these events

    @abstractmethod
    def results(self) -> dict[str, Any]:
        """What ``--json`` prints between the stream and the center."""

    def values(self) -> dict[str, Any]:
        """The plain object that ``--json`` prints."""
        events = len(self.stream) if self.judged is None else self.judged.judged
        about = {"stream": self.stream.name, "events": events, "peers": list(self.stream.peers)}
        center = {} if self.judged is None else {"center": asdict(self.judged)}
        return {**about, **self.results(), **center}

    @abstractmethod
    def grid(self) -> Grid:
        """The table as text."""

    def beside_sigma(self) -> dict[str, str]:
        """For parts of the table, which rows are better than the center's own."""
        return {}

    def remarks(self) -> list[str]:
        """Lines to print below the table; by default what a center judged, if there is one."""
        if self.judged is None:
            return []
        better = [f"- {part}: {said}." for part, said in self.beside_sigma().items()]
        return ["", f"{self.judged.note}.", "", *better]

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


@dataclass(frozen=True, kw_only=True)
class LeagueTable(Table):
    """A table whose columns hold every mechanism's row, such as one column per attack ratio."""

    phis: FloatArray  # of the stream's events
    columns: Mapping[str, Rows]

    @property
    def shows_selections(self) -> bool:
        """Whether the grid says how often each peer was chosen."""
        return self.judged is not None

    def grid(self) -> Grid:
        """A line per mechanism, a column per column."""
        header = ["mechanism"]
        for name in self.columns:
            header += [name, f"{name} selections"] if self.shows_selections else [name]
        body = {name: [name] for name in next(iter(self.columns.values()))}
        for rows in self.columns.values():
            spans = row_intervals(rows)
            for name, line in body.items():
                line.append(f"{rows[name].accuracy:.2%} ± {50 * (spans[name].high - spans[name].low):.2f}")
                line += [selection_counts(rows[name])] if self.shows_selections else []
        return header, list(body.values())

    def beside_sigma(self) -> dict[str, str]:
        """In every column."""
        return {name: better_than_sigma(rows) for name, rows in self.columns.items()}

    def accuracy_figures(self, folder: Path) -> list[Path]:
        """Accuracy of every row that uses no oracle, then what the stream itself looks like."""
        shown = [name for name in next(iter(self.columns.values())) if name not in ORACLES]
        spans = {column: row_intervals(rows) for column, rows in self.columns.items()}
        bars = {column: {name: found[name] for name in shown} for column, found in spans.items()}
        ceiling = {column: rows["any-right"].accuracy for column, rows in self.columns.items()}
        drawn = figures.bars(bars, ceiling, f"{self.stream.name}: accuracy", folder / "accuracy.png")
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

    def difference(found: Interval) -> dict[str, Any]:
        ends = [round(found.difference_low, 6), round(found.difference_high, 6)]
        return {"difference": round(found.difference, 6), "interval": ends}

    return {
        name: {
            "accuracy": round(row.accuracy, 6),
            "selections": dict(row.selections),
            "interval": [round(spans[reference][name].low, 6), round(spans[reference][name].high, 6)],
            **{f"vs_{other}": difference(span[name]) for other, span in spans.items()},
        }
        for name, row in rows.items()
    }


def selection_counts(row: TableRow) -> str:
    """How often each peer was chosen, in the peers' order."""
    return "/".join(map(str, row.selections.values()))


def standing(rows: Rows) -> str:
    """One honest sentence: who is on top among those that use no oracle, and where adaptive stands."""
    fair = {name: row.accuracy for name, row in rows.items() if name not in ORACLES}
    best = max(fair, key=lambda name: fair[name])
    rival = max((name for name in fair if name != "adaptive"), key=lambda name: fair[name])
    gap = 100 * (fair["adaptive"] - fair[rival])
    where = "above" if gap > 0 else "level with" if gap == 0 else "below"
    top = f"best without an oracle: {best} {fair[best]:.2%}"
    return f"{top}; adaptive is {abs(gap):.2f} points {where} {rival}"


def _stream_figures(folder: Path, stream: Stream, phis: FloatArray) -> list[Path]:
    """Reliability over time, peer × domain, and G, of the stream as it is."""
    labels, peers, name = stream.labels(), stream.peers, stream.name
    past = replay(phis, labels)
    rate = 100 * past.rate
    domains = np.asarray([event.domain or "all" for event in stream], dtype=str)
    names = [str(domain) for domain in np.unique(domains)]
    parts = [domains == domain for domain in names]
    r = successes(labels)
    # The mean of what is known in every domain, (P, domains); 0 where a peer was never there.
    right = [np.nansum(r[part], axis=0) / np.maximum((~np.isnan(r[part])).sum(axis=0), 1) for part in parts]
    believed = [past.prob[part][-50:].mean(axis=0) for part in parts]
    lines = {peer: rate[20:, i] for i, peer in enumerate(peers)}
    title = f"{name}: reliability over time"
    said = f"{name}: p̂ at the end, from φ alone (%)"
    return [
        figures.curves(lines, "event", "decayed rate of being right (%)", title, folder / "reliability.png"),
        figures.heatmap(
            np.array(right).T, peers, names, f"{name}: right in each domain (%)", folder / "domains.png"
        ),
        figures.heatmap(np.array(believed).T, peers, names, said, folder / "believed.png"),
        figures.heatmap(
            past.G[-1], peers, peers, f"{name}: relation G", folder / "relation.png", signed=True
        ),
    ]
