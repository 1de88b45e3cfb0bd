"""What an experiment found, as a value: what ``--json`` prints, and what a person reads."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sigma_lab.bench.center import JudgedEvents, better_than_sigma
from sigma_lab.bench.league import ORACLES, reference_row
from sigma_lab.bench.row import Interval, TableRow, intervals
from sigma_mem.streams import Stream

Rows = Mapping[str, TableRow]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The result of one experiment."""

    title: str
    values: Mapping[str, Any]  # the plain object that ``--json`` prints
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()  # lines below the table

    def write(self, folder: Path) -> list[Path]:
        """Write ``report.md`` and ``table.csv`` into the folder; return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([self.header, *self.rows])
        lines = [f"# {self.title}", "", *markdown(self.header, self.rows)]
        lines += ["", *self.remarks, ""]
        (folder / "report.md").write_text("\n".join(lines), encoding="utf-8")
        return [folder / "report.md", folder / "table.csv"]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    r"""A table in Markdown.

    >>> markdown(["row", "right"], [["a|b", "1"]])
    ['| row | right |', '| --- | --- |', '| a\\|b | 1 |']
    """
    lines = (header, ["---"] * len(header), *rows)
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def rounded(value: Any, digits: int = 6) -> Any:
    """Plain values with every number that is not whole rounded.

    >>> rounded({"a": [1, 0.12345678, None]})
    {'a': [1, 0.123457, None]}
    """
    if isinstance(value, Mapping):
        return {key: rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, digits) for one in value]
    return round(float(value), digits) if isinstance(value, float) else value


def about(stream: Stream, judged: JudgedEvents | None = None) -> dict[str, Any]:
    """The fields on the stream with which every object begins."""
    events = len(stream) if judged is None else judged.judged
    return {"stream": stream.name, "events": events, "peers": list(stream.peers)}


def about_center(judged: JudgedEvents | None, better: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The notes on a center: in the object, and below the table with the rows that are better than it."""
    if judged is None:
        return {}, []
    lines = [f"- {part}: {said}." for part, said in better.items()]
    return {"center": asdict(judged)}, ["", f"{judged.note}.", "", *lines]


def league_table(
    title: str,
    stream: Stream,
    columns: Mapping[str, Rows],
    results: Mapping[str, Any],
    *,
    judged: JudgedEvents | None = None,
    selections: bool = False,
    remarks: Sequence[str] = (),
) -> Table:
    """A table whose columns hold every mechanism's row, such as one column per attack ratio."""
    shows, header = selections or judged is not None, ["mechanism"]
    body = {name: [name] for name in next(iter(columns.values()))}
    for column, rows in columns.items():
        header += [column, f"{column} selections"] if shows else [column]
        spans = row_intervals(rows)
        for name, line in body.items():
            line.append(f"{rows[name].accuracy:.2%} ± {50 * (spans[name].high - spans[name].low):.2f}")
            line += [selection_counts(rows[name])] if shows else []
    center, of_center = about_center(
        judged, {column: better_than_sigma(rows) for column, rows in columns.items()} if judged else {}
    )
    return Table(
        title=f"{title}: {stream.name}",
        values={**about(stream, judged), **results, **center},
        header=header,
        rows=list(body.values()),
        remarks=[*remarks, *of_center],
    )


def row_intervals(rows: Rows, reference: str | None = None, seed: int = 0) -> dict[str, Interval]:
    """Intervals of every row, and of its difference to the reference row."""
    correct = {name: row.correct for name, row in rows.items()}
    return intervals(correct, reference or reference_row(rows), seed=seed)


def difference_values(found: Interval) -> dict[str, Any]:
    """A paired difference with its interval, as plain values."""
    ends = (found.difference_low, found.difference_high)
    values: dict[str, Any] = rounded({"difference": found.difference, "interval": ends})
    return values


def difference_text(found: Interval) -> str:
    """A paired difference in points, with its interval."""
    low, high = 100 * found.difference_low, 100 * found.difference_high
    return f"{100 * found.difference:+.2f} ({low:+.2f} … {high:+.2f})"


def row_values(rows: Rows, seed: int = 0) -> dict[str, Any]:
    """Rows as plain values, each with its interval and its paired difference to the reference row.

    If a center has rows, also to ``base``, its judge without memory, and to ``sigma``.
    """
    reference = reference_row(rows)
    references = [reference, *(name for name in ("base", "sigma") if name in rows)]
    spans = {name: row_intervals(rows, name, seed) for name in references}
    return {
        name: {
            **rounded({"accuracy": row.accuracy, "selections": row.selections}),
            "interval": rounded((spans[reference][name].low, spans[reference][name].high)),
            **{f"vs_{other}": difference_values(span[name]) for other, span in spans.items()},
        }
        for name, row in rows.items()
    }


def selection_counts(row: TableRow) -> str:
    """How often each peer was chosen, in the peers' order."""
    return "/".join(map(str, row.selections.values()))


def standing(rows: Rows) -> str:
    """One honest sentence: which row leads among those that use no oracle, and where adaptive stands."""
    fair = {name: row.accuracy for name, row in rows.items() if name not in ORACLES}
    best = max(fair, key=lambda name: fair[name])
    rival = max((name for name in fair if name != "adaptive"), key=lambda name: fair[name])
    gap = 100 * (fair["adaptive"] - fair[rival])
    where = "above" if gap > 0 else "level with" if gap == 0 else "below"
    top = f"best without an oracle: {best} {fair[best]:.2%}"
    return f"{top}; adaptive is {abs(gap):.2f} points {where} {rival}"
