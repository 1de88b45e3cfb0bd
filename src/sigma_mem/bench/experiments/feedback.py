"""Accuracy against feedback: 5 % … 100 % of events labelled, over seeds (fig:feedback_availability)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.bench import figures
from sigma_mem.bench.center import NO_SIGMA, BenchCenter, JudgedEvents
from sigma_mem.bench.league import DEFAULT, MAJORITY, Setup, rows_of
from sigma_mem.bench.replayed import replayed
from sigma_mem.bench.table import Grid, Table
from sigma_mem.events import FloatArray
from sigma_mem.streams import Share, Stream

SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
JUDGED = ("base", "sigma")  # the rows of a center that the figure shows


@dataclass(frozen=True)
class FeedbackTable(Table):
    """Accuracy of every read at every share of labelled events, one value per seed."""

    title = "Feedback availability"

    events: int
    seeds: tuple[int, ...]
    accuracy: Mapping[float, Mapping[str, tuple[float, ...]]]
    judged: JudgedEvents | None = None  # by a center; then all rows are about these events

    def values(self) -> dict[str, Any]:
        """The object that ``bench feedback --json`` prints."""
        return {
            "stream": self.stream.name,
            "events": self.events,
            "peers": list(self.stream.peers),
            "seeds": list(self.seeds),
            "shares": {
                f"{share:g}": {
                    name: {
                        "accuracy": round(float(np.mean(found)), 6),
                        "lowest": round(min(found), 6),
                        "highest": round(max(found), 6),
                    }
                    for name, found in rows.items()
                }
                for share, rows in self.accuracy.items()
            },
            **({} if self.judged is None else {"center": self.judged.values()}),
        }

    def grid(self) -> Grid:
        """A line per share: mean, lowest and highest accuracy over the seeds."""
        names = list(next(iter(self.accuracy.values())))
        body = [
            [
                f"{share:.0%}",
                *(f"{np.mean(rows[n]):.2%} ({min(rows[n]):.2%} … {max(rows[n]):.2%})" for n in names),
            ]
            for share, rows in self.accuracy.items()
        ]
        return ["labelled", *names], body

    def remarks(self) -> list[str]:
        """How many events a center judged, and which rows are better than its own."""
        if self.judged is None:
            return []
        better = [f"- {share:.0%} labelled: {_above_sigma(rows)}." for share, rows in self.accuracy.items()]
        return ["", f"{self.judged.note}.", "", *better]

    def figures(self, folder: Path) -> list[Path]:
        """Mean accuracy against the share of labels; what learns nothing is a level."""
        first = next(iter(self.accuracy.values()))
        lines = {
            name: [(float(np.mean(r[name])), min(r[name]), max(r[name])) for r in self.accuracy.values()]
            for name in first
            if name != MAJORITY
        }
        flat = {MAJORITY: first[MAJORITY][0]} if MAJORITY in first else {}
        title = f"{self.stream.name}: accuracy against feedback, {len(self.seeds)} seeds"
        return [figures.shaded(list(self.accuracy), lines, flat, title, folder / "feedback.png")]


def feedback_table(
    stream: Stream,
    phis: FloatArray,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (0, 1, 2),
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> FeedbackTable:
    """Play the stream with the labels of a share of its events; unlabelled events still decay.

    The masks are nested: the events labelled at 5 % are labelled at 10 % too (`streams.Share`).
    """
    about = None if center is None else center.judged(stream)
    places = range(len(stream)) if center is None else center.places(stream)
    accuracy: dict[float, dict[str, tuple[float, ...]]] = {}
    runs, done = len(shares) * len(seeds), 0
    for share in shares:
        found: dict[str, list[float]] = {}
        for seed in seeds:
            reveal = Share(share, seed)
            shown = np.array(
                [bool(reveal.reveal(t, event, stream.peers[0])) for t, event in enumerate(stream)], dtype=bool
            )
            choices = replayed(stream, phis, setup.settings, shown, reads=setup.reads)
            rows = rows_of(stream, choices, setup.reads)
            judged = {} if center is None else center.judge(stream, shown=shown, rows=JUDGED)
            for name, row in {**{name: row.at(places) for name, row in rows.items()}, **judged}.items():
                found.setdefault(name, []).append(row.accuracy)
            done += 1
            setup.progress(f"{share:.0%} of labels", done, runs)
        accuracy[share] = {name: tuple(values) for name, values in found.items()}
    return FeedbackTable(stream, phis, len(places), tuple(seeds), accuracy, about)


def _above_sigma(rows: Mapping[str, Sequence[float]]) -> str:
    """Which mean accuracies over masks are above that of ``sigma``."""
    means = {name: float(np.mean(found)) for name, found in rows.items()}
    if "sigma" not in means:
        return NO_SIGMA
    above = sorted((name for name in means if means[name] > means["sigma"]), key=lambda name: -means[name])
    said = ", ".join(f"{name} {100 * (means[name] - means['sigma']):+.2f} points" for name in above)
    return f"better than sigma, {means['sigma']:.2%}: {said or 'none'}"
