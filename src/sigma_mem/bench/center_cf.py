"""The counterfactual table with a center (tab:CF_results): all rows at all ratios, on the same events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sigma_mem.bench.center_rows import CenterRow, Scorer, center_rows, judged_events, paired_interval
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream, counterfactual

__all__ = ["center_cf", "table_values"]

# The comparisons that the claims are about; each gets a paired bootstrap interval.
COMPARED = (
    ("sigma", "base"),
    ("sigma", "zero-M"),
    ("sigma", "swapped-M"),
    ("sigma", "sigma-no-g"),
    ("sigma", "fast"),
)


def center_cf(
    stream: Stream,
    phis: FloatArray,
    scorer: Scorer,
    *,
    fast: FloatArray | None,
    gamma: float,
    ratios: Sequence[float] = (0.0, 0.5, 0.7, 0.9),
    after: int = 0,
    limit: int | None = None,
    seed: int = 0,
    say: Callable[[int, int], None] = lambda done, total: None,
) -> dict[float, dict[str, CenterRow]]:
    """Rows of every ratio on the same judged events.

    Parameters
    ----------
    stream
        Clean, in order; the attack is made here, on the whole of it.
    phis : (T, rank)
        φ of its questions, which no attack changes.
    after, limit
        Judge only events from this place on, and at most so many; the memory is written from all.
    """
    judged = judged_events(stream, after=after, limit=limit, seed=seed)
    bases: dict[tuple[str, str], float] = {}
    table = {}
    for done, ratio in enumerate(ratios):
        say(done, len(ratios))
        table[ratio] = center_rows(
            counterfactual(stream, ratio, seed=seed),
            phis,
            judged,
            scorer,
            fast=fast,
            settings=Settings(gamma=gamma),
            bases=bases,
        )
    say(len(ratios), len(ratios))
    return table


def table_values(table: Mapping[float, Mapping[str, CenterRow]]) -> dict[str, Any]:
    """The table as plain values: accuracy, selections, and how far rows differ."""
    ratios: dict[str, Any] = {}
    for ratio, rows in table.items():
        values: dict[str, Any] = {
            name: {"accuracy": row.accuracy, "selections": dict(row.selections)} for name, row in rows.items()
        }
        values["differences"] = {
            f"{a} − {b}": dict(zip(("gap", "low", "high"), paired_interval(rows[a], rows[b]), strict=True))
            for a, b in COMPARED
            if a in rows and b in rows
        }
        ratios[f"{ratio:g}"] = values
    return {"events": len(next(iter(next(iter(table.values())).values())).correct), "ratios": ratios}
