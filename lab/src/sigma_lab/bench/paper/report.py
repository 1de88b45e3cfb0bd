"""All of it in one folder: Markdown, LaTeX, JSON and the figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_lab.bench.paper.cells import Cell, PaperTable
from sigma_lab.bench.paper.drawing import feedback_figure, superglue_figure
from sigma_lab.bench.paper.peer_tables import peer_tables
from sigma_lab.bench.paper.play import CenterRows, PaperPlay
from sigma_lab.bench.paper.tables import LABELS, PaperTables
from sigma_mem.files import replace_file

_ESCAPED = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "Σ": r"$\Sigma$",
    "–": "--",
    "…": r"\dots{}",
    "φ": r"$\phi$",
    "−": "$-$",
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "^": r"\^{}",
    "~": r"\~{}",
}
_CAPTIONS = {
    "figure-3": "Figure 3: accuracy by the share of events with feedback, shaded over the masks.",
    "superglue": "SuperGLUE by subset: the base judge, what Σ w/ G adds or takes, and the share of events "
    "on which some peer is right.",
}


@dataclass(frozen=True)
class PaperReport:
    """Tables in the paper's order, the figures' files, and what was left out."""

    tables: Sequence[PaperTable]
    figures: Sequence[Path]
    missing: Sequence[str]
    about: Mapping[str, Any]

    def values(self) -> dict[str, Any]:
        """The plain object that ``--json`` prints."""
        tables = {table.key: table.values() for table in self.tables}
        return {
            **self.about,
            "missing": list(self.missing),
            "tables": tables,
            "figures": [str(f) for f in self.figures],
        }


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
    if centers and streams.ood is not None:
        tables += made.outside()
        shares = {center.name: center.feedback for center in centers}
        tables.append(_feedback_table(play, shares))
        level = play.controls(streams.ood, more=True)["majority"].accuracy
        figures.append(feedback_figure(shares, level, folder / "figure-3.png"))
        glue = made.superglue()
        if glue:
            tables.append(_superglue_table(glue))
            figures.append(superglue_figure(glue, folder / "superglue.png"))
        else:
            missing.append("the SuperGLUE breakdown: no event of superglue in --ood")
    if centers:
        tables.append(made.judges())
    tables += peer_tables(streams, play.ratios, play.seed)
    if streams.train is None:
        missing.append("the training peers and a warm Beta B1: no --train")
    if streams.cf is None:
        missing.append("Tables 1 and 2: no --cf")
    elif not streams.larger:
        missing.append(f"Table 2: --cf has no more than {streams.trained} peers")
    if streams.ood is None:
        missing.append("Tables 3 and 4 and Figure 3: no --ood")
    if not centers:
        missing.append("every row of a center: no --center")
    report = PaperReport(tables, figures, missing, about)
    write_files(report, folder)
    return report


def _feedback_table(
    play: PaperPlay, shares: Mapping[str, Mapping[float, Mapping[str, Sequence[float]]]]
) -> PaperTable:
    """Figure 3 as numbers: mean over the masks, with the lowest and the highest."""
    header = ["row", *(f"{100 * share:g} % labelled" for share in play.shares)]
    lines = []
    for center, found in shares.items():
        for name in ("base", "sigma", "m-route", "m-vote"):
            cells = [Cell(_spread(masks[name])) for masks in found.values()]
            lines.append((f"{center}: {LABELS[name]}", cells))
    note = f"Mean (lowest … highest) of {play.masks} masks; unlabelled events only decay."
    return PaperTable(
        "figure-3", "Figure 3: feedback availability", "fig:feedback_availability", header, lines, (note,)
    )


def _superglue_table(found: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> PaperTable:
    header = [
        "center",
        *(f"{subset} {what}" for subset in next(iter(found.values())) for what in ("base", "Σ", "any right")),
    ]
    lines = [
        (center, [Cell(value) for parts in subsets.values() for value in parts])
        for center, subsets in found.items()
    ]
    return PaperTable("superglue", "SuperGLUE breakdown", "fig:superglue", header, lines)


def _spread(values: Sequence[float]) -> str:
    low, high = 100 * min(values), 100 * max(values)
    mean = 100 * sum(values) / len(values)
    return f"{mean:.2f} ({low:.1f} … {high:.1f})" if low < high else f"{mean:.2f}"


def write_files(report: PaperReport, folder: Path) -> list[Path]:
    """Write ``paper.md``, ``paper.tex`` and ``paper.json``."""
    texts = {
        "paper.md": _markdown(report),
        "paper.tex": _latex(report),
        "paper.json": json.dumps(report.values(), indent=1) + "\n",
    }
    for name, text in texts.items():
        with replace_file(folder / name) as temporary:
            Path(temporary).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _markdown(report: PaperReport) -> str:
    lines = ["# The paper's tables, ours and (in brackets) the paper's", ""]
    lines += [f"- {name}: {_said(value)}" for name, value in report.about.items()]
    lines += [f"- left out: {what}" for what in report.missing]
    for table in report.tables:
        header = list(table.header)
        label = f" (`{table.label}`)" if table.label else ""
        lines += ["", f"## {table.title}{label}", ""]
        marked = [
            [name, *(f"**{cell.text()}**" if cell.best else cell.text() for cell in cells)]
            for name, cells in table.rows
        ]
        rows = (header, ["---"] * len(header), *marked)
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        lines += ["", *table.notes] if table.notes else []
    lines += ["", *(f"![{file.stem}]({file.name})\n" for file in report.figures)]
    return "\n".join(lines) + "\n"


def _said(value: Any) -> str:
    """A list or mapping as a person would write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _latex(report: PaperReport) -> str:
    lines = ["% Needs booktabs and graphicx. Ours, and in brackets the paper's."]
    for table in report.tables:
        lines += [
            "",
            r"\begin{table*}",
            r"\centering",
            rf"\caption{{{_tex(table.title)}. {_tex(' '.join(table.notes))}}}",
        ]
        lines += [
            rf"\label{{ours:{table.key}}}",
            r"\resizebox{\textwidth}{!}{",
            rf"\begin{{tabular}}{{l{'c' * (len(table.header) - 1)}}}",
        ]
        lines += [r"\toprule", " & ".join(map(_tex, table.header)) + r" \\", r"\midrule"]
        for name, cells in table.rows:
            texts = [rf"\textbf{{{_tex(c.text())}}}" if c.best else _tex(c.text()) for c in cells]
            lines.append(" & ".join([_tex(name), *texts]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", "}", r"\end{table*}"]
    for file in report.figures:
        lines += [
            "",
            r"\begin{figure}",
            r"\centering",
            rf"\includegraphics[width=0.9\linewidth]{{{file.name}}}",
            rf"\caption{{{_tex(_CAPTIONS[file.stem])}}}",
            rf"\label{{ours:{file.stem}-drawn}}",
            r"\end{figure}",
        ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)
