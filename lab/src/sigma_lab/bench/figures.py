"""Figures of the reports, drawn with matplotlib (extra `plot`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.bootstrap import Interval
from sigma_mem.events import FloatArray
from sigma_mem.extras import require

_COLOURS = ("#4062bb", "#c2453d", "#3d8b63", "#b8862b", "#7a5195", "#2f8fa3", "#8c564b", "#6b6b6b")


def _axes(width: float, height: float) -> Any:
    matplotlib = require("matplotlib.figure", extra="plot", purpose="drawing figures")
    figure = matplotlib.Figure(figsize=(width, height), layout="constrained")  # no pyplot: no global state
    return figure.add_subplot()


def bars(
    groups: Mapping[str, Mapping[str, Interval]], ceiling: Mapping[str, float], title: str, path: Path
) -> Path:
    """Grouped bars (group → mechanism → accuracy) with intervals, and a dashed ceiling above each group."""
    names = list(next(iter(groups.values())))
    axes = _axes(max(7.0, 1.1 * len(groups) * len(names) ** 0.6 + 2.0), 4.6)
    width = 0.84 / len(names)
    for i, name in enumerate(names):
        x = np.arange(len(groups)) + (i - (len(names) - 1) / 2) * width
        spans = [group[name] for group in groups.values()]
        mean, low, high = 100 * np.array([(span.mean, span.low, span.high) for span in spans]).T
        whiskers = np.abs(np.stack((mean - low, high - mean)))
        colour = _COLOURS[i % len(_COLOURS)]
        axes.bar(x, mean, width, yerr=whiskers, label=name, color=colour, error_kw={"lw": 0.7})
    for g, group in enumerate(groups):
        axes.hlines(100 * ceiling[group], g - 0.45, g + 0.45, colors="black", linestyles="dashed", lw=1)
    axes.plot([], [], "k--", lw=1, label="any peer right (ceiling)")
    axes.set_xticks(np.arange(len(groups)), list(groups))
    lowest = min(100 * span.mean for group in groups.values() for span in group.values())
    axes.set_ylim(max(0.0, lowest - 8.0), 100 * max(ceiling.values()) + 3)
    return _saved(axes, "accuracy (%)", "", title, path)


def curves(lines: Mapping[str, FloatArray], x_label: str, y_label: str, title: str, path: Path) -> Path:
    """One line per name over events."""
    axes = _axes(7.5, 4.2)
    for i, (name, values) in enumerate(lines.items()):
        axes.plot(np.arange(len(values)), values, lw=1.3, label=name, color=_COLOURS[i % len(_COLOURS)])
    return _saved(axes, y_label, x_label, title, path)


def shaded(
    x: Sequence[float],
    lines: Mapping[str, Sequence[tuple[float, float, float]]],
    flat: Mapping[str, float],
    title: str,
    path: Path,
) -> Path:
    """Mean with a band from the lowest to the highest seed, and dashed levels (fig:feedback_availability)."""
    axes = _axes(7.0, 4.4)
    for i, (name, points) in enumerate(lines.items()):
        mean, low, high = (100 * np.array(column) for column in zip(*points, strict=True))
        colour = _COLOURS[i % len(_COLOURS)]
        axes.plot(100 * np.array(x), mean, "o-", ms=3.5, lw=1.4, label=name, color=colour)
        axes.fill_between(100 * np.array(x), low, high, color=colour, alpha=0.18, lw=0)
    for name, level in flat.items():
        axes.axhline(100 * level, color="grey", ls="--", lw=1.2, label=name)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xticks([100 * share for share in x], [f"{100 * share:g}" for share in x])
    return _saved(axes, "accuracy (%)", "events with feedback (%)", title, path)


def against(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    levels: Mapping[str, float],
    x_label: str,
    title: str,
    path: Path,
) -> Path:
    """Accuracy against something else, a line per name through its points; levels are dashed."""
    axes = _axes(6.4, 4.4)
    for i, (name, points) in enumerate(lines.items()):
        x, y = zip(*sorted(points), strict=True)
        axes.plot(x, [100 * value for value in y], "o-", ms=4, label=name, color=_COLOURS[i % len(_COLOURS)])
    for name, level in levels.items():
        axes.axhline(100 * level, color="grey", ls="--", lw=1.2, label=name)
    return _saved(axes, "right (%)", x_label, title, path)


def reliability(
    claims: Mapping[str, tuple[FloatArray, FloatArray, NDArray[np.intp]]], title: str, path: Path
) -> Path:
    """Share right against confidence, by bin; a dot is as large as its bin, and the diagonal is perfect."""
    axes = _axes(6.4, 4.4)
    axes.plot([0, 100], [0, 100], color="grey", ls="--", lw=1.2, label="perfectly calibrated")
    for i, (name, (confidence, right, counts)) in enumerate(claims.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        axes.plot(100 * confidence, 100 * right, lw=1.2, label=name, color=colour)
        axes.scatter(
            100 * confidence, 100 * right, s=6 + 240 * counts / counts.sum(), color=colour, alpha=0.6
        )
    return _saved(axes, "right (%)", "confidence (%)", title, path)


def heatmap(
    values: FloatArray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    path: Path,
    *,
    signed: bool = False,
) -> Path:
    """Numbers in coloured cells; signed ones around white at 0."""
    axes = _axes(2.6 + 0.75 * len(columns), 1.6 + 0.38 * len(rows))
    bound = float(np.abs(values).max()) or 1.0
    options = {"cmap": "RdBu_r", "vmin": -bound, "vmax": bound} if signed else {"cmap": "YlGnBu"}
    axes.imshow(values, aspect="auto", **options)
    middle = 0.6 * bound if signed else float((values.min() + values.max()) / 2)
    for (i, j), value in np.ndenumerate(values):
        dark = abs(value) > middle if signed else value > middle
        text = f"{value:.2f}" if signed else f"{100 * value:.0f}"
        axes.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axes.set_xticks(np.arange(len(columns)), list(columns), rotation=35, ha="right", fontsize=8)
    axes.set_yticks(np.arange(len(rows)), list(rows), fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.figure.savefig(path, dpi=140)
    return path


def rolling(right: FloatArray, width: int = 200) -> FloatArray:
    """Percent right over the last ``width`` events, at every event."""
    total = np.concatenate(([0.0], np.cumsum(right)))
    t = np.arange(1, len(right) + 1)
    start = np.maximum(t - width, 0)
    rate: FloatArray = 100 * (total[t] - total[start]) / (t - start)
    return rate


def _saved(axes: Any, y_label: str, x_label: str, title: str, path: Path) -> Path:
    axes.set_ylabel(y_label)
    axes.set_xlabel(x_label)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    axes.figure.savefig(path, dpi=140)
    return path
