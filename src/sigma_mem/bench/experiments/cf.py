"""Counterfactual attack: accuracy and selection counts at every ratio (tab:CF_results, tab:CF_Mresults)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sigma_mem.bench.bootstrap import intervals
from sigma_mem.bench.league import Row, Say, league
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream, counterfactual

__all__ = ["CounterfactualTable", "counterfactual_table", "labelled", "table_of", "with_rows"]


@dataclass(frozen=True, slots=True)
class CounterfactualTable:
    """Rows of every ratio, on the same events in the same order."""

    stream: str
    peers: tuple[str, ...]
    events: int
    ratios: Mapping[float, Mapping[str, Row]]
    seed: int = 0

    def values(self) -> dict[str, Any]:
        """The object that ``bench cf --json`` prints."""
        return {
            "stream": self.stream,
            "events": self.events,
            "peers": list(self.peers),
            "ratios": {f"{ratio:g}": table_of(rows, self.seed) for ratio, rows in self.ratios.items()},
        }


def counterfactual_table(
    stream: Stream,
    phis: FloatArray,
    ratios: Sequence[float] = (0.0, 0.5, 0.7, 0.9),
    settings: Settings | None = None,
    *,
    rivals: Sequence[str] = (),
    warm: tuple[Stream, FloatArray] | None = None,
    session: bool = False,
    seed: int = 0,
    say: Say | None = None,
) -> CounterfactualTable:
    """Attack a clean stream at every ratio and play it. φ depends on the questions only, so it stays."""
    found: dict[float, dict[str, Row]] = {}
    for ratio in ratios:
        attacked = counterfactual(stream, ratio, seed=seed)
        found[ratio] = league(
            attacked,
            phis,
            settings,
            rivals=rivals,
            warm=warm,
            session=session,
            seed=seed,
            say=None if say is None else labelled(say, f"CF@{100 * ratio:g}"),
        )
    return CounterfactualTable(stream.name, stream.peers, len(stream), found, seed)


def with_rows(
    table: CounterfactualTable, more: Mapping[float, Mapping[str, Row]], places: Sequence[int]
) -> CounterfactualTable:
    """The table on some of its events only, with rows that were made for those events (a center's)."""
    ratios = {
        ratio: {**{name: row.at(places) for name, row in rows.items()}, **more[ratio]}
        for ratio, rows in table.ratios.items()
    }
    return replace(table, events=len(places), ratios=ratios)


def table_of(rows: Mapping[str, Row], seed: int = 0, reference: str = "majority") -> dict[str, Any]:
    """Rows as plain values, each with its interval and its paired difference to ``reference``."""
    found = intervals({name: row.correct for name, row in rows.items()}, reference, seed=seed)
    return {
        name: {
            "accuracy": round(row.accuracy, 6),
            "selections": dict(row.selections),
            "interval": [round(found[name].low, 6), round(found[name].high, 6)],
            f"vs_{reference}": {
                "difference": round(found[name].difference, 6),
                "interval": [round(found[name].difference_low, 6), round(found[name].difference_high, 6)],
            },
        }
        for name, row in rows.items()
    }


def labelled(say: Say, part: str) -> Say:
    """Progress that names the part of the experiment it is about."""
    return lambda what, done, total: say(f"{part} {what}", done, total)
