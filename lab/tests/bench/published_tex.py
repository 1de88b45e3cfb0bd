"""Reads the figures of the paper's tables from its LaTeX source, for the test of the packaged copy."""

import re
from typing import Any

ROWS = {"+ $\\Sigma$ w/o G": "sigma-no-g", "+ $\\Sigma$ w/ G": "sigma", "+ M-route": "m-route"}
RATIOS = ("0", "50", "70", "90")


def read_tables(source: str) -> dict[str, Any]:
    """Every figure of the paper, in the layout of ``published.json``."""
    lines = [line for line in source.splitlines() if not line.lstrip().startswith("%")]
    tables = dict(_tables("\n".join(lines)))
    peers = {name: _peer_rows(tables[label]) for name, label in PEER_TABLES.items()}
    return {
        "cf": _counterfactual(tables["tab:CF_results"]),
        "cf-route": _counterfactual(tables["tab:CF_Mresults"]),
        "peers": _scaling(tables["tab:scaling_results"]),
        "ood": _ood(tables["tab:generalization_results"]),
        "mechanisms": _mechanisms(tables["tab:coordination_roles"]),
        "readouts": {center: _readouts(tables[label]) for center, label in READOUTS.items()},
        "peer_accuracy": peers,
    }


PEER_TABLES = {
    "train": "tab:training_peer_accuracy",
    "cf-3": "tab:counterfactual_peer_accuracy",
    "cf-4": "tab:four_peer_accuracy",
    "cf-5": "tab:five_peer_accuracy",
    "ood": "tab:ood_peer_accuracy",
    "superglue": "tab:superglue_peer_breakdown",
}
READOUTS = {
    "Qwen3-0.6B": "tab:m_readout_qwen06b",
    "Qwen3-4B": "tab:m_readout_qwen3_4b",
    "Qwen3-8B": "tab:m_readout_qwen3_8b",
    "Qwen3.5-4B": "tab:m_readout_qwen35_4b",
    "Qwen3.5-9B": "tab:m_readout_qwen35_9b",
}


def _tables(source: str) -> list[tuple[str, list[list[str]]]]:
    """(label, rows of cells) of every table."""
    found = []
    for body in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", source, re.DOTALL):
        label = re.search(r"\\label\{(.*?)\}", body)
        assert label is not None
        rows = body.split("\\begin{tabular}", 1)[1].split("\\\\")
        found.append((label.group(1), [[_plain(cell) for cell in row.split("&")] for row in rows]))
    return found


def _plain(cell: str) -> str:
    """The text of a cell without its commands."""
    cell = re.sub(r"~?\\cite[pt]?\{.*?\}", "", cell)
    cell = re.sub(
        r"\\(textcolor\{\w+\}|textbf|enspace|hline|Xhline\{.*?\}|\w*rule(\(.*?\))?(\{.*?\})?)", "", cell
    )
    cell = re.sub(r"\\(up|down|rowcolor\{.*?\})\b", "", cell).replace("\\%", "").replace("%", "")
    return " ".join(re.sub(r"(?<!w)[{}]", "", cell).split())


def _number(cell: str) -> float | None:
    cell = cell.replace(",", "")
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def _counterfactual(rows: list[list[str]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    center = ""
    for name, *cells in rows:
        if len(cells) != 8 or _number(cells[0]) is None:
            continue
        if name == "Bayesian Beta B1":
            center, row = "", "beta-b1"
        else:
            center, row = (center, ROWS[name]) if name in ROWS else (name, "base")
        values = {
            ratio: {"accuracy": _number(acc), "selections": [int(n) for n in counts.split("/")]}
            for ratio, acc, counts in zip(RATIOS, cells[::2], cells[1::2], strict=True)
        }
        out.setdefault(center, {})[row] = values
    return out


def _scaling(rows: list[list[str]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for row in rows:
        size = re.search(r"(\d) peers", " ".join(row))
        if len(row) == 9 and _number(row[1]) is not None:
            name = row[0].split()[-1]
            pairs = zip(RATIOS, row[1::2], row[2::2], strict=True)
            cells = {r: {"base": _number(base), "sigma": _number(sigma)} for r, base, sigma in pairs}
            out[list(out)[-1]][name] = cells
        if size:
            out[size.group(1)] = {}
    return out


OOD = ("PIQA", "MMLU", "OpenBookQA", "SciQ", "BBH", "SuperGLUE")


def _ood(rows: list[list[str]]) -> dict[str, Any]:
    return {
        row[0]: {
            dataset: {"base": _number(base), "sigma": _number(sigma)}
            for dataset, base, sigma in zip(OOD, row[1::2], row[2::2], strict=True)
        }
        for row in rows
        if len(row) == 13 and _number(row[1]) is not None
    }


def _mechanisms(rows: list[list[str]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for row in rows:
        if len(row) != 5:
            continue
        numbers = [_number(cell) for cell in row[1:]]
        if None not in numbers:
            out[row[0]] = dict(zip(("base", "sigma", "m-route", "m-vote"), numbers, strict=True))
        for key, start in BASELINES.items():
            if row[0].startswith(start):
                out[key] = next(n for n in numbers if n is not None)
    return out


BASELINES = {"random": "Random", "majority": "Majority", "best-fixed": "Best fixed", "oracle": "Oracle"}


def _readouts(rows: list[list[str]]) -> dict[str, Any]:
    names = ("base", "sigma", "majority", "m-route", "m-vote")
    return {
        row[0].split()[-1]: dict(zip(("n", *names), map(_number, row[1:]), strict=True))
        for row in rows
        if len(row) == 7 and _number(row[1]) is not None
    }


def _peer_rows(rows: list[list[str]]) -> dict[str, Any]:
    return {
        row[0].split()[-1]: {"n": _number(row[1]), "accuracy": [_number(cell) for cell in row[2:]]}
        for row in rows
        if len(row) >= 5 and _number(row[1]) is not None
    }
