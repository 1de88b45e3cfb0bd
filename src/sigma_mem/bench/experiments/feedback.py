"""Accuracy against feedback: 0 % … 100 % of events labelled, over seeds (fig:feedback_availability)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.bench import figures
from sigma_mem.bench.center import NO_SIGMA, BenchCenter, merged
from sigma_mem.bench.league import DEFAULT, MAJORITY, Setup, rows_of
from sigma_mem.bench.replayed import replayed
from sigma_mem.bench.table import Grid, Table
from sigma_mem.events import FloatArray
from sigma_mem.streams import Share, Stream


@dataclass(frozen=True, kw_only=True)
class FeedbackTable(Table):
    """Accuracy of every read at every share of labelled events, one value per seed."""

    title = "Feedback availability"

    seeds: tuple[int, ...]
    accuracy: Mapping[float, Mapping[str, Sequence[float]]]

    def results(self) -> dict[str, Any]:
        """Mean, lowest and highest accuracy over the seeds, by share."""
        keys = ("accuracy", "lowest", "highest")
        shares = {
            f"{share:g}": {
                name: {key: round(value, 6) for key, value in zip(keys, _spread(found), strict=True)}
                for name, found in rows.items()
            }
            for share, rows in self.accuracy.items()
        }
        return {"seeds": list(self.seeds), "shares": shares}

    def grid(self) -> Grid:
        """A line per share: mean, lowest and highest accuracy over the seeds."""
        names = list(next(iter(self.accuracy.values())))
        body = [
            [
                f"{100 * share:g}%",
                *("{:.2%} ({:.2%} … {:.2%})".format(*_spread(rows[name])) for name in names),
            ]
            for share, rows in self.accuracy.items()
        ]
        return ["labelled", *names], body

    def beside_sigma(self) -> dict[str, str]:
        """At every share, by mean accuracy over the seeds."""
        return {f"{100 * share:g}% labelled": _above_sigma(rows) for share, rows in self.accuracy.items()}

    def figures(self, folder: Path) -> list[Path]:
        """Mean accuracy against the share of labels; what learns nothing is a level."""
        first = next(iter(self.accuracy.values()))
        learning = [name for name in first if name != MAJORITY]
        lines = {name: [_spread(rows[name]) for rows in self.accuracy.values()] for name in learning}
        flat = {MAJORITY: first[MAJORITY][0]} if MAJORITY in first else {}
        title = f"{self.stream.name}: accuracy against feedback, {len(self.seeds)} seeds"
        return [figures.shaded(list(self.accuracy), lines, flat, title, folder / "feedback.png")]


def feedback_table(
    stream: Stream,
    phis: FloatArray,
    shares: Sequence[float] = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
    seeds: Sequence[int] = (0, 1, 2),
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> FeedbackTable:
    """Play the stream with the labels of a share of its events; unlabelled events still decay.

    The masks are nested: the events labelled at 5 % are labelled at 10 % too (`streams.Share`).
    """
    places = range(len(stream)) if center is None else center.places(stream)
    accuracy: dict[float, dict[str, list[float]]] = {}
    for done, (share, seed) in enumerate(product(shares, seeds), start=1):
        reveal = Share(share, seed)
        shown = np.array([bool(reveal.reveal(t, e, stream.peers[0])) for t, e in enumerate(stream)])
        choices = replayed(stream, phis, setup.settings, shown, reads=setup.reads)
        judged = {} if center is None else center.judge(stream, shown=shown, rows=("base", "sigma"))
        for name, row in merged(rows_of(stream, choices, setup.reads), judged, places).items():
            accuracy.setdefault(share, {}).setdefault(name, []).append(row.accuracy)
        setup.progress(f"{100 * share:g}% of labels", done, len(shares) * len(seeds))
    about = None if center is None else center.judged(stream)
    return FeedbackTable(stream=stream, judged=about, seeds=tuple(seeds), accuracy=accuracy)


def _spread(found: Sequence[float]) -> tuple[float, float, float]:
    """Mean, lowest and highest."""
    return float(np.mean(found)), min(found), max(found)


def _above_sigma(rows: Mapping[str, Sequence[float]]) -> str:
    """Which mean accuracies over masks are above that of ``sigma``."""
    means = {name: float(np.mean(found)) for name, found in rows.items()}
    if "sigma" not in means:
        return NO_SIGMA
    above = sorted((name for name in means if means[name] > means["sigma"]), key=lambda name: -means[name])
    said = ", ".join(f"{name} {100 * (means[name] - means['sigma']):+.2f} points" for name in above)
    return f"better than sigma, {means['sigma']:.2%}: {said or 'none'}"
