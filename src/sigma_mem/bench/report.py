"""Reports: Markdown and CSV of any experiment, and its figures, in one folder."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sigma_mem.bench.center import NO_SIGMA, better_than_sigma
from sigma_mem.bench.experiments.cf import CounterfactualTable
from sigma_mem.bench.experiments.drift import DriftTable
from sigma_mem.bench.experiments.feedback import FeedbackTable
from sigma_mem.bench.experiments.mechanisms import MechanismTable
from sigma_mem.bench.experiments.ood import TransferTable
from sigma_mem.bench.experiments.peers import PeerTable
from sigma_mem.bench.experiments.theory import TheoryTable
from sigma_mem.bench.league import Row
from sigma_mem.bench.pictures import pictures
from sigma_mem.bench.tables import Result, grid, standing
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

__all__ = ["remarks", "title", "write_report"]


def write_report(
    result: Result, folder: Path, stream: Stream, phis: FloatArray, settings: Settings | None = None
) -> list[Path]:
    """Write ``report.md``, ``table.csv`` and figures into the folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    header, rows = grid(result)
    drawn = pictures(result, folder, stream, phis, settings or Settings())
    table = folder / "table.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    page = folder / "report.md"
    page.write_text(_markdown(result, header, rows, drawn), encoding="utf-8")
    return [page, table, *drawn]


def _markdown(
    result: Result, header: Sequence[str], rows: Sequence[Sequence[str]], drawn: Sequence[Path]
) -> str:
    name = result.test if isinstance(result, TransferTable) else result.stream
    lines = [f"# {title(result)}: {name}", ""]
    peers = getattr(result, "peers", None)
    if peers is not None:
        lines += ["Peers: " + ", ".join(peers) + ".", ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", *remarks(result), ""]
    lines += [f"![{p.stem}]({p.name})\n" for p in drawn]
    return "\n".join(lines)


def title(result: Result) -> str:
    """What the experiment is called."""
    titles = {
        CounterfactualTable: "Counterfactual attack",
        PeerTable: "More peers",
        TransferTable: "Learned elsewhere",
        MechanismTable: "Mechanisms",
        FeedbackTable: "Feedback availability",
        DriftTable: "Conditions",
        TheoryTable: "Theory",
    }
    return titles[type(result)]


def remarks(result: Result) -> list[str]:
    """What there is to say beside the table; where the memory is not on top, it says so."""
    return [*_remarks(result), *_on_center(result)]


def _on_center(result: Result) -> list[str]:
    """How many events a center judged, and which rows are better than its own."""
    if isinstance(result, (DriftTable, TheoryTable)) or result.judged is None:
        return []
    columns: dict[str, Mapping[str, Row]] = {}
    if isinstance(result, CounterfactualTable):
        columns = {f"CF@{100 * r:g}: ": rows for r, rows in result.ratios.items()}
    elif isinstance(result, PeerTable):
        columns = {
            f"{size} peers, CF@{100 * r:g}: ": rows
            for size, table in result.pools.items()
            for r, rows in table.ratios.items()
        }
    elif isinstance(result, TransferTable):
        columns = {f"{what}: ": rows for what, rows in result.carried.items()}
    elif isinstance(result, MechanismTable):
        columns = {"": result.rows}
    said = [f"- {what}{better_than_sigma(rows)}." for what, rows in columns.items()]
    if isinstance(result, FeedbackTable):
        said = [f"- {share:.0%} labelled: {_above_sigma(rows)}." for share, rows in result.accuracy.items()]
    return ["", f"{result.judged.note}.", "", *said]


def _above_sigma(rows: Mapping[str, Sequence[float]]) -> str:
    """The same for mean accuracies over masks."""
    means = {name: float(np.mean(found)) for name, found in rows.items()}
    if "sigma" not in means:
        return NO_SIGMA
    above = sorted((name for name in means if means[name] > means["sigma"]), key=lambda name: -means[name])
    said = ", ".join(f"{name} {100 * (means[name] - means['sigma']):+.2f} points" for name in above)
    return f"better than sigma, {means['sigma']:.2%}: {said or 'none'}"


def _remarks(result: Result) -> list[str]:
    if isinstance(result, CounterfactualTable):
        note = "± is half the 95 % bootstrap interval over events; n/n/… are selections in the peers' order."
        return [note, "", *(f"- CF@{100 * r:g}: {standing(rows)}." for r, rows in result.ratios.items())]
    if isinstance(result, MechanismTable):
        return [standing(result.rows) + "."]
    if isinstance(result, TheoryTable):
        w = result.weyl
        return [
            f"Weyl over {w.events} events: largest |λᵢ(M′) − γλᵢ(M)| − η is {w.worst_excess:+.2e}, of G "
            f"{w.worst_excess_relation:+.2e} (at most 0 up to rounding); ‖M‖₂ ≤ {w.largest_norm:.4f} of "
            f"{w.norm_bound:.4f}: {'holds' if w.holds else 'VIOLATED'}."
        ]
    if isinstance(result, DriftTable):
        return [f"- {name}: {c.note}." for name, c in result.conditions.items()]
    return []
