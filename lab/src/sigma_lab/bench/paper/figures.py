"""The paper's two figures of results, drawn as there (extra ``plot``)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.extras import require

_BLUE, _RED, _GREY, _ORANGE = "#4062bb", "#8c1c2b", "#8a8a8a", "#d9822b"
_BASE = "#c9c9c9"
_LINES = {"m-route": ("M-route", _BLUE), "sigma": ("Σ w/ G", _RED), "m-vote": ("M-vote", "#3d8b63")}


def feedback_figure(
    shares: Mapping[str, Mapping[float, Mapping[str, Sequence[float]]]],
    majority: float,
    judged: str,
    path: Path,
) -> Path:
    """Figure 3: accuracy against the share of labelled events, a panel per center, shaded over the masks."""
    figure = _figure(4.6 * len(shares) + 1.2, 3.8)
    panels = figure.subplots(1, len(shares), squeeze=False, sharey=True)[0]
    for axes, (center, found) in zip(panels, shares.items(), strict=True):
        x = 100 * np.array(list(found))
        for name, (label, colour) in _LINES.items():
            values = 100 * np.array([masks[name] for masks in found.values()])
            axes.plot(x, values.mean(axis=1), "o-", ms=3.5, lw=1.4, color=colour, label=label)
            axes.fill_between(x, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.18, lw=0)
        base = float(np.mean([masks["base"] for masks in found.values()]))
        axes.axhline(100 * base, color=_GREY, ls=":", lw=1.3, label="base")
        axes.axhline(100 * majority, color=_GREY, ls="--", lw=1.3, label="majority")
        axes.set_title(f"{center}, {judged} events", fontsize=10)
        axes.set_xlabel("events with feedback (%)")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy (%)")
    handles, labels = panels[-1].get_legend_handles_labels()
    _legend(figure, handles, labels)
    figure.savefig(path, dpi=140)
    return path


def superglue_figure(found: Mapping[str, Mapping[str, tuple[float, float, float]]], path: Path) -> Path:
    """Base accuracy in grey, what Σ adds in red or takes in blue, and the ceiling as a dashed orange line."""
    figure = _figure(4.2 * len(found) + 1.0, 3.6)
    panels = figure.subplots(1, len(found), squeeze=False, sharex=True)[0]
    for axes, (center, subsets) in zip(panels, found.items(), strict=True):
        for y, (base, sigma, ceiling) in enumerate(subsets.values()):
            axes.barh(y, min(base, sigma), color=_BASE, height=0.62)
            axes.barh(
                y,
                abs(sigma - base),
                left=min(base, sigma),
                color=_RED if sigma >= base else _BLUE,
                height=0.62,
            )
            axes.plot([ceiling, ceiling], [y - 0.4, y + 0.4], color=_ORANGE, ls="--", lw=1.6, clip_on=False)
            axes.text(1, y, f"{base:.1f} → {sigma:.1f}", va="center", fontsize=8)
        axes.set_yticks(range(len(subsets)), list(subsets))
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_title(center, fontsize=10)
        axes.set_xlabel("accuracy (%)")
        axes.spines[["top", "right"]].set_visible(False)
    colours = {"base": _BASE, "added by Σ w/ G": _RED, "taken by Σ w/ G": _BLUE}
    patches = require("matplotlib.patches", extra="plot", purpose="drawing figures")
    lines = require("matplotlib.lines", extra="plot", purpose="drawing figures")
    handles = [patches.Patch(color=colour) for colour in colours.values()]
    _legend(
        figure,
        [*handles, lines.Line2D([], [], color=_ORANGE, ls="--")],
        [*colours, "some peer is right"],
    )
    figure.savefig(path, dpi=140)
    return path


def _legend(figure: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """One legend for all panels, below them."""
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)


def _figure(width: float, height: float) -> Any:
    matplotlib = require("matplotlib.figure", extra="plot", purpose="drawing figures")
    return matplotlib.Figure(figsize=(width, height), layout="constrained")
