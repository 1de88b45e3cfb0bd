"""Counterfactual attack: accuracy and selection counts at every ratio (tab:CF_results, tab:CF_Mresults)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sigma_mem.bench.bootstrap import Interval, intervals
from sigma_mem.bench.center import BenchCenter, JudgedEvents, merged
from sigma_mem.bench.league import Row, Say, league
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream, counterfactual

__all__ = ["CounterfactualTable", "counterfactual_table", "labelled", "table_of"]


@dataclass(frozen=True, slots=True)
class CounterfactualTable:
    """Rows of every ratio, on the same events in the same order."""

    stream: str
    peers: tuple[str, ...]
    events: int
    ratios: Mapping[float, Mapping[str, Row]]
    seed: int = 0
    judged: JudgedEvents | None = None  # by a center; then all rows are about these events

    def values(self) -> dict[str, Any]:
        """The object that ``bench cf --json`` prints."""
        return {
            "stream": self.stream,
            "events": self.events,
            "peers": list(self.peers),
            "ratios": {f"{ratio:g}": table_of(rows, self.seed) for ratio, rows in self.ratios.items()},
            **({} if self.judged is None else {"center": self.judged.values()}),
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
    center: BenchCenter | None = None,
    say: Say | None = None,
) -> CounterfactualTable:
    """Attack a clean stream at every ratio and play it. φ depends on the questions only, so it stays.

    With a center its rows come behind the others, and all are about the events that it judges.
    """
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
        if center is not None:
            judged = center.judge(attacked, warm=None if warm is None else warm[0])
            found[ratio] = merged(found[ratio], judged, center.places(stream))
    about = None if center is None else center.judged(stream)
    events = len(stream) if about is None else about.events
    return CounterfactualTable(stream.name, stream.peers, events, found, seed, about)


def table_of(rows: Mapping[str, Row], seed: int = 0) -> dict[str, Any]:
    """Rows as plain values, each with its interval and its paired difference to ``majority``.

    Where a center has rows, also to ``base``, its judge without memory, and to ``sigma``.
    """
    correct = {name: row.correct for name, row in rows.items()}
    references = ["majority", *(name for name in ("base", "sigma") if name in rows)]
    spans = {name: intervals(correct, name, seed=seed) for name in references}
    found = spans["majority"]
    return {
        name: {
            "accuracy": round(row.accuracy, 6),
            "selections": dict(row.selections),
            "interval": [round(found[name].low, 6), round(found[name].high, 6)],
            **{f"vs_{other}": _difference(span[name]) for other, span in spans.items()},
        }
        for name, row in rows.items()
    }


def _difference(found: Interval) -> dict[str, Any]:
    span = [round(found.difference_low, 6), round(found.difference_high, 6)]
    return {"difference": round(found.difference, 6), "interval": span}


def labelled(say: Say, part: str) -> Say:
    """Progress that names the part of the experiment it is about."""
    return lambda what, done, total: say(f"{part} {what}", done, total)
