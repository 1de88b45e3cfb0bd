"""Which figures belong to which experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sigma_mem.bench import figures
from sigma_mem.bench.bootstrap import intervals
from sigma_mem.bench.experiments.cf import CounterfactualTable
from sigma_mem.bench.experiments.drift import DriftTable
from sigma_mem.bench.experiments.feedback import FeedbackTable
from sigma_mem.bench.experiments.mechanisms import MechanismTable
from sigma_mem.bench.experiments.theory import TheoryTable
from sigma_mem.bench.league import Row
from sigma_mem.bench.tables import Result
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings, replay
from sigma_mem.streams import Stream

__all__ = ["pictures", "stream_pictures"]

_SHOWN = ("majority", "beta-b1", "m-route", "calibrated-route", "m-vote", "calibrated-vote", "adaptive")


def pictures(
    result: Result, folder: Path, stream: Stream, phis: FloatArray, settings: Settings
) -> list[Path]:
    """Draw what belongs to the result; return the files."""
    if isinstance(result, FeedbackTable):
        lines = {
            name: [(float(np.mean(r[name])), min(r[name]), max(r[name])) for r in result.accuracy.values()]
            for name in next(iter(result.accuracy.values()))
            if name != "majority"
        }
        flat = {"majority": next(iter(result.accuracy.values()))["majority"][0]}
        title = f"{result.stream}: accuracy against feedback, {len(result.seeds)} seeds"
        return [figures.shaded(list(result.accuracy), lines, flat, title, folder / "feedback.png")]
    if isinstance(result, TheoryTable):
        names = ("λ₁", "λ₂", "λ₃", "smallest λ")
        paths = {name: result.trajectory[:, i] for i, name in enumerate(names)}
        title = f"spectrum of M, {stream.peers[0]}"
        return [figures.curves(paths, "event", "eigenvalue", title, folder / "spectrum.png")]
    if isinstance(result, DriftTable):
        return [
            figures.curves(
                {n: _rolling(c.correct[n]) for n in c.correct},
                "event",
                "accuracy over the last 200 events (%)",
                f"{result.stream}: {name}",
                folder / f"{name}.png",
            )
            for name, c in result.conditions.items()
            if name in ("abrupt", "gradual", "new-peer", "bandit-only", "poisoned")
        ]
    if isinstance(result, (MechanismTable, CounterfactualTable)):
        return _league_pictures(result, folder, stream, phis, settings)
    return []


def _league_pictures(
    result: MechanismTable | CounterfactualTable,
    folder: Path,
    stream: Stream,
    phis: FloatArray,
    settings: Settings,
) -> list[Path]:
    columns: dict[str, Mapping[str, Row]] = (
        {"clean": result.rows}
        if isinstance(result, MechanismTable)
        else {f"CF@{100 * r:g}": rows for r, rows in result.ratios.items()}
    )
    shown = [name for name in _SHOWN if name in next(iter(columns.values()))]
    groups = {c: {n: rows[n].accuracy for n in shown} for c, rows in columns.items()}
    spans = {c: intervals({n: rows[n].correct for n in shown}, "majority") for c, rows in columns.items()}
    errors = {c: {n: (i.low, i.high) for n, i in found.items()} for c, found in spans.items()}
    ceiling = {c: rows["any-right"].accuracy for c, rows in columns.items()}
    out = [figures.bars(groups, ceiling, errors, f"{result.stream}: accuracy", folder / "accuracy.png")]
    return [*out, *stream_pictures(folder, stream, phis, settings)]


def stream_pictures(folder: Path, stream: Stream, phis: FloatArray, settings: Settings) -> list[Path]:
    """Reliability over time, peer × domain, and G, of the stream as it is."""
    labels = stream.labels()
    past = replay(phis, labels, settings)
    seen = np.maximum(past.labels, 1e-12)
    rate = {p: 100 * (0.5 + 0.5 * past.total[:, i] / seen[:, i]) for i, p in enumerate(stream.peers)}
    names = np.asarray([event.domain or "all" for event in stream], dtype=str)
    domains = [str(d) for d in np.unique(names)]
    right = np.array([[float((labels[names == d, i] > 0).mean()) for d in domains] for i in range(len(rate))])
    believed = np.array([[past.prob[names == d, i][-50:].mean() for d in domains] for i in range(len(rate))])
    peers = list(stream.peers)
    say = stream.name
    return [
        figures.curves(
            {p: v[20:] for p, v in rate.items()},
            "event",
            "decayed rate of being right (%)",
            f"{say}: reliability over time",
            folder / "reliability.png",
        ),
        figures.heatmap(right, peers, domains, f"{say}: right in each domain (%)", folder / "domains.png"),
        figures.heatmap(
            believed, peers, domains, f"{say}: p̂ at the end, from φ alone (%)", folder / "believed.png"
        ),
        figures.heatmap(past.G[-1], peers, peers, f"{say}: relation G", folder / "relation.png", signed=True),
    ]


def _rolling(right: FloatArray, width: int = 200) -> FloatArray:
    total = np.concatenate(([0.0], np.cumsum(right)))
    t = np.arange(1, len(right) + 1)
    start = np.maximum(t - width, 0)
    rate: FloatArray = 100 * (total[t] - total[start]) / (t - start)
    return rate
