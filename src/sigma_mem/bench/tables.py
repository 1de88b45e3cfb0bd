"""Any experiment as one table of text: what Markdown, CSV and the terminal show."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sigma_mem.bench.bootstrap import intervals
from sigma_mem.bench.experiments.cf import CounterfactualTable
from sigma_mem.bench.experiments.drift import DriftTable
from sigma_mem.bench.experiments.feedback import FeedbackTable
from sigma_mem.bench.experiments.mechanisms import MechanismTable
from sigma_mem.bench.experiments.ood import TransferTable
from sigma_mem.bench.experiments.peers import PeerTable
from sigma_mem.bench.experiments.theory import BoundCheck, TheoryTable
from sigma_mem.bench.league import ORACLES, Row

__all__ = ["Grid", "Result", "grid", "standing"]

Result = (
    CounterfactualTable
    | DriftTable
    | FeedbackTable
    | MechanismTable
    | PeerTable
    | TheoryTable
    | TransferTable
)
Grid = tuple[list[str], list[list[str]]]  # header and rows


def grid(result: Result) -> Grid:
    """The result as one table of text: what Markdown, CSV and the terminal show."""
    if isinstance(result, CounterfactualTable):
        return _rows_by_column({f"CF@{100 * r:g}": rows for r, rows in result.ratios.items()}, True)
    if isinstance(result, PeerTable):
        columns = {
            f"{size} peers CF@{100 * r:g}": rows
            for size, table in result.pools.items()
            for r, rows in table.ratios.items()
        }
        return _rows_by_column(columns, result.judged is not None)
    if isinstance(result, TransferTable):
        return _rows_by_column(result.carried, result.judged is not None)
    if isinstance(result, MechanismTable):
        return _mechanisms(result)
    if isinstance(result, FeedbackTable):
        return _feedback(result)
    if isinstance(result, DriftTable):
        return _drift(result)
    header = ["μ", "γ", "T", "bound", "lowest λ_max", "mean λ_max", "below the bound", "SNR", "SNR simulated"]
    return header, [_bound(check) for check in result.bounds]


def standing(rows: Mapping[str, Row]) -> str:
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


def _bound(check: BoundCheck) -> list[str]:
    return [
        f"{check.mu:g}",
        f"{check.gamma:g}",
        str(check.horizon),
        f"{check.bound:+.4f}",
        f"{check.lowest:.4f}",
        f"{check.mean:.4f}",
        f"{check.violations:.2%} (δ = {check.delta:.0%})",
        f"{check.snr:.2f}",
        f"{check.snr_simulated:.2f}",
    ]


def _rows_by_column(columns: Mapping[str, Mapping[str, Row]], selections: bool) -> Grid:
    header = ["mechanism"]
    for name in columns:
        header += [name, f"{name} selections"] if selections else [name]
    spans = {
        name: intervals({m: row.correct for m, row in rows.items()}, "majority")
        for name, rows in columns.items()
    }
    body = []
    for mechanism in next(iter(columns.values())):
        line = [mechanism]
        for name, rows in columns.items():
            found, row = spans[name][mechanism], rows[mechanism]
            line.append(f"{row.accuracy:.2%} ± {50 * (found.high - found.low):.2f}")
            if selections:
                line.append(_counts(row))
        body.append(line)
    return header, body


def _counts(row: Row) -> str:
    return "/".join(str(count) for count in row.selections.values())  # in the peers' order


def _mechanisms(result: MechanismTable) -> Grid:
    found = intervals({name: row.correct for name, row in result.rows.items()}, "majority")
    domains = list(result.by_domain(next(iter(result.rows.values()))))
    selections = [] if result.judged is None else ["selections"]
    header = ["mechanism", "accuracy", "95 % interval", "− majority", "95 % interval", *selections, *domains]
    body = []
    for name, row in result.rows.items():
        i = found[name]
        line = [name, f"{i.mean:.2%}", f"{i.low:.2%} … {i.high:.2%}", f"{100 * i.difference:+.2f}"]
        line.append(f"{100 * i.difference_low:+.2f} … {100 * i.difference_high:+.2f}")
        line += [_counts(row) for _ in selections]
        body.append([*line, *(f"{a:.1%}" for a in result.by_domain(row).values())])
    return header, body


def _feedback(result: FeedbackTable) -> Grid:
    names = list(next(iter(result.accuracy.values())))
    body = [
        [
            f"{share:.0%}",
            *(f"{np.mean(rows[n]):.2%} ({min(rows[n]):.2%} … {max(rows[n]):.2%})" for n in names),
        ]
        for share, rows in result.accuracy.items()
    ]
    return ["labelled", *names], body


def _drift(result: DriftTable) -> Grid:
    names = list(dict.fromkeys(n for c in result.conditions.values() for n in c.correct))
    body = []
    for condition, found in result.conditions.items():
        cells = [f"{found.correct[n].mean():.2%}" if n in found.correct else "" for n in names]
        body.append([condition, *cells])
    return ["condition", *names], body
