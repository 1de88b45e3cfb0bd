"""All of it in one folder: Markdown, JSON and the two figures, drawn as in the paper (extra ``plot``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sigma_lab.bench.paper.play import CenterRows, PaperPlay
from sigma_lab.bench.paper.tables import LABELS, Cell, PaperTable, PaperTables, peer_tables
from sigma_lab.bench.table import markdown
from sigma_mem.extras import require
from sigma_mem.files import replace_file


@dataclass(frozen=True)
class PaperReport:
    """Tables in the paper's order, the figures' files, what was left out, and how it was made."""

    tables: Sequence[PaperTable]
    figures: Sequence[Path]
    missing: Sequence[str]
    about: Mapping[str, Any]

    def values(self) -> dict[str, Any]:
        """The plain object that ``--json`` prints."""
        return {
            **self.about,
            "missing": list(self.missing),
            "tables": {table.key: table.values() for table in self.tables},
            "figures": [str(f) for f in self.figures],
        }

    def text(self) -> str:
        """The report in Markdown."""
        lines = ["# The paper's tables, ours and (in brackets) the paper's", ""]
        lines += [f"- left out: {what}" for what in self.missing]
        for table in self.tables:
            label = f" (`{table.label}`)" if table.label else ""
            lines += ["", f"## {table.title}{label}", "", *markdown(table.header, table.texts(bold=True))]
            lines += ["", *(f"- {note}" for note in table.notes)]
        lines += ["", *(f"![{file.stem}]({file.name})\n" for file in self.figures)]
        lines += ["## How it was made", "", *_settings(self.about)]
        return "\n".join(lines) + "\n"


def _settings(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Every setting on a line of its own."""
    lines = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            lines += _settings(value, f"{prefix}{name}.")
        else:
            said = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            lines.append(f"- {prefix}{name}: {said}")
    return lines


def paper_report(
    play: PaperPlay, centers: Sequence[CenterRows], folder: Path, about: Mapping[str, Any]
) -> PaperReport:
    """Make every table and figure that the streams allow, and write them into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    streams, made = play.streams, PaperTables(play, centers)
    tables: list[PaperTable] = []
    figures: list[Path] = []
    missing = []
    if centers and streams.cf is not None:
        tables += made.counterfactual()
        tables += made.more_peers()
        tables += made.verdicts()
    if centers and streams.ood is not None:
        outside = streams.ood
        tables += made.outside()
        shares = {center.name: center.feedback for center in centers if center.feedback}
        if shares:
            judged = made._judged(outside, more=True)
            tables.append(_feedback_table(play, shares, judged))
            level = play.controls(lambda seed: play.ordered(outside, seed), more=True)["majority"]
            majority = sum(row.accuracy for row in level) / len(level)
            figures.append(feedback_figure(shares, majority, judged, folder / "figure-3.png"))
        else:
            missing.append("Figure 3: no center was chosen for it")
        glue = made.superglue()
        if glue:
            tables.append(_superglue_table(glue))
            figures.append(superglue_figure(glue, folder / "superglue.png"))
        else:
            missing.append("the SuperGLUE breakdown: no event of superglue in --ood")
    if centers:
        tables.append(made.judges())
    tables += peer_tables(play)
    unwarmed = play.warm is not None and not set(streams.peers) <= set(play.warm.peers)
    left_out = {
        "the training peers and a warm Beta B1: no --train": streams.train is None,
        "Tables 1 and 2: no --cf": streams.cf is None,
        f"Table 2: --cf has no more than {streams.trained} peers": streams.cf is not None
        and not streams.larger,
        "a warm start of Table 2: --warm does not have all of its peers": unwarmed,
        "Tables 3 and 4 and Figure 3: no --ood": streams.ood is None,
        "every row of a center: no --center": not centers,
    }
    missing += [what for what, is_so in left_out.items() if is_so]
    report = PaperReport(tables, figures, missing, about)
    for name, text in (("paper.md", report.text()), ("paper.json", json.dumps(report.values(), indent=1))):
        with replace_file(folder / name) as temporary:
            Path(temporary).write_text(text, encoding="utf-8")
    return report


def _feedback_table(
    play: PaperPlay, shares: Mapping[str, Mapping[float, Mapping[str, Sequence[float]]]], judged: str
) -> PaperTable:
    """Figure 3 as numbers: mean over seeds and masks, with the lowest and the highest."""
    header = ["row", *(f"{100 * share:g} % labelled" for share in play.shares)]
    lines = []
    for center, found in shares.items():
        for name in ("base", "sigma", "m-route", "m-vote"):
            each = [[100 * value for value in masks[name]] for masks in found.values()]
            cells = [Cell(sum(values) / len(values), spread=(min(values), max(values))) for values in each]
            lines.append((f"{center}: {LABELS[name]}", cells))
    note = (
        f"Mean [lowest … highest] of {play.masks} masks in {len(play.seeds)} orders; unlabelled events only "
        f"decay. {judged} events judged."
    )
    title = "Figure 3: feedback availability"
    return PaperTable("figure-3", title, "fig:feedback_availability", header, lines, (note,))


def _superglue_table(found: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> PaperTable:
    subsets = next(iter(found.values()))
    header = ["center", *(f"{subset} {what}" for subset in subsets for what in ("base", "Σ", "any right"))]
    lines = [
        (center, [Cell(value) for parts in by_subset.values() for value in parts])
        for center, by_subset in found.items()
    ]
    note = "In brackets after a subset: its judged events."
    return PaperTable("superglue", "SuperGLUE breakdown", "fig:superglue", header, lines, (note,))


_BLUE, _RED, _GREY, _ORANGE = "#4062bb", "#8c1c2b", "#8a8a8a", "#d9822b"
_BASE = "#c9c9c9"
_LINES = {"m-route": ("M-route", _BLUE), "sigma": ("Σ w/ G", _RED), "m-vote": ("M-vote", "#3d8b63")}


def feedback_figure(
    shares: Mapping[str, Mapping[float, Mapping[str, Sequence[float]]]],
    majority: float,
    judged: str,
    path: Path,
) -> Path:
    """Figure 3: accuracy against the share of labelled events, a panel per center, shaded over the masks."""
    figure = _figure(4.6 * len(shares) + 1.2, 3.8)
    panels = figure.subplots(1, len(shares), squeeze=False, sharey=True)[0]
    for axes, (center, found) in zip(panels, shares.items(), strict=True):
        x = 100 * np.array(list(found))
        for name, (label, colour) in _LINES.items():
            values = 100 * np.array([masks[name] for masks in found.values()])
            axes.plot(x, values.mean(axis=1), "o-", ms=3.5, lw=1.4, color=colour, label=label)
            axes.fill_between(x, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.18, lw=0)
        base = float(np.mean([masks["base"] for masks in found.values()]))
        axes.axhline(100 * base, color=_GREY, ls=":", lw=1.3, label="base")
        axes.axhline(100 * majority, color=_GREY, ls="--", lw=1.3, label="majority")
        axes.set_title(f"{center}, {judged} events", fontsize=10)
        axes.set_xlabel("events with feedback (%)")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy (%)")
    handles, labels = panels[-1].get_legend_handles_labels()
    return _saved(figure, handles, labels, path)


def superglue_figure(found: Mapping[str, Mapping[str, tuple[float, float, float]]], path: Path) -> Path:
    """Base accuracy in grey, what Σ adds in red or takes in blue, and the ceiling as a dashed orange line."""
    figure = _figure(4.2 * len(found) + 1.0, 3.6)
    panels = figure.subplots(1, len(found), squeeze=False, sharex=True)[0]
    for axes, (center, subsets) in zip(panels, found.items(), strict=True):
        for y, (base, sigma, ceiling) in enumerate(subsets.values()):
            axes.barh(y, min(base, sigma), color=_BASE, height=0.62)
            colour = _RED if sigma >= base else _BLUE
            axes.barh(y, abs(sigma - base), left=min(base, sigma), color=colour, height=0.62)
            axes.plot([ceiling, ceiling], [y - 0.4, y + 0.4], color=_ORANGE, ls="--", lw=1.6, clip_on=False)
            axes.text(1, y, f"{base:.1f} → {sigma:.1f}", va="center", fontsize=8)
        axes.set_yticks(range(len(subsets)), list(subsets))
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_title(center, fontsize=10)
        axes.set_xlabel("accuracy (%)")
        axes.spines[["top", "right"]].set_visible(False)
    colours = {"base": _BASE, "added by Σ w/ G": _RED, "taken by Σ w/ G": _BLUE}
    patches = require("matplotlib.patches", extra="plot", purpose="drawing figures")
    lines = require("matplotlib.lines", extra="plot", purpose="drawing figures")
    handles = [patches.Patch(color=colour) for colour in colours.values()]
    ceiling = lines.Line2D([], [], color=_ORANGE, ls="--")
    return _saved(figure, [*handles, ceiling], [*colours, "some peer is right"], path)


def _saved(figure: Any, handles: Sequence[Any], labels: Sequence[str], path: Path) -> Path:
    """Write the figure, with one legend for all panels below them."""
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)
    figure.savefig(path, dpi=140)
    return path


def _figure(width: float, height: float) -> Any:
    matplotlib = require("matplotlib.figure", extra="plot", purpose="drawing figures")
    return matplotlib.Figure(figsize=(width, height), layout="constrained")
