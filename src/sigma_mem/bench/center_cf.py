"""The counterfactual table with a center (tab:CF_results): all rows at all ratios, on the same events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sigma_mem.bench.center_rows import ROWS, Scorer, center_rows, judged_events
from sigma_mem.bench.experiments.cf import table_of
from sigma_mem.bench.league import Row
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream, counterfactual

__all__ = ["center_cf", "table_values"]


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
    rows: Sequence[str] = ROWS,
    say: Callable[[int, int], None] = lambda done, total: None,
) -> dict[float, dict[str, Row]]:
    """Rows of every ratio on the same judged events.

    Parameters
    ----------
    stream
        Clean, in order; the attack is made here, on the whole of it.
    phis : (T, rank)
        φ of its questions, which no attack changes.
    after, limit
        Judge only events from this place on, and at most so many; the memory is written from all.
    rows
        Which rows to compute; ``base`` must be among them for `table_values`.
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
            rows=rows,
        )
    say(len(ratios), len(ratios))
    return table


def table_values(table: Mapping[float, Mapping[str, Row]], seed: int = 0) -> dict[str, Any]:
    """The table as plain values, each row beside its paired differences to ``base`` and to ``sigma``."""
    ratios: dict[str, Any] = {}
    for ratio, rows in table.items():
        values = table_of(rows, seed, reference="base")
        if "sigma" in rows:
            for name, against in table_of(rows, seed, reference="sigma").items():
                values[name]["vs_sigma"] = against["vs_sigma"]
        ratios[f"{ratio:g}"] = values
    return {"events": len(table[next(iter(table))]["base"].correct), "ratios": ratios}
