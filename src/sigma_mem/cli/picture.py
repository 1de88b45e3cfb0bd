"""A memory as a picture: trust with intervals, share right over time, and G."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigma_mem.extras import require
from sigma_mem.files import replace_file

if TYPE_CHECKING:
    from sigma_mem.session import History, SigmaMem, TrustByPeer
    from sigma_mem.streams.pool import PoolReport

_MOST_LINES = 12  # peers whose trend is drawn


def draw_memory(mem: SigmaMem, path: Path, window: int = 50) -> None:
    """Write the picture of a memory; MissingExtraError without matplotlib."""
    figure = require("matplotlib.figure", extra="plot", purpose="the picture").Figure(
        figsize=(12, 7.5), layout="constrained"
    )
    shown = list(mem.peers)
    axes: dict[str, Any] = figure.subplot_mosaic([["trust", "G"], ["trend", "trend"]], height_ratios=(1, 1.1))
    found = mem.trust()
    _trust(axes["trust"], found, shown)
    _trend(axes["trend"], mem.history(shown), window)
    _relation(axes["G"], mem, shown)
    figure.suptitle(f"{found.events} events: who can be trusted", fontsize=14, fontweight="bold")
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=110)


def draw_pool(report: PoolReport, path: Path) -> None:
    """Write the picture of a pool: accuracy with intervals, and who is wrong with whom."""
    figure = require("matplotlib.figure", extra="plot", purpose="the picture").Figure(
        figsize=(12, max(4.0, 0.3 * len(report.peers) + 1.5)), layout="constrained"
    )
    order = sorted(range(len(report.peers)), key=lambda place: -report.peers[place].accuracy)
    lines = [report.peers[place] for place in order]
    places, names = range(len(lines)), [_plain(line.peer) for line in lines]
    bars, pairs = figure.subplots(1, 2)
    rates = np.array([line.accuracy for line in lines])
    away = np.abs(np.array([(line.low, line.high) for line in lines]).T - rates)
    bars.barh(places, rates, color="#1f6feb", alpha=0.8)
    bars.errorbar(rates, places, xerr=away, fmt="none", ecolor="#24292f", capsize=3)
    for value, name in ((report.majority, "majority"), (report.joint, "joint vote")):
        bars.axvline(value, color="#24292f", linestyle=":")
        bars.text(value, -0.6, name, ha="center", va="bottom", fontsize=8.5)
    bars.set_yticks(places, names, fontsize=8.5)
    bars.invert_yaxis()
    bars.set_xlim(0, 1)
    bars.set_xlabel("share right, 95 % interval")
    pairs.imshow(report.correlation[np.ix_(order, order)], cmap="PuOr_r", vmin=-1.0, vmax=1.0, aspect="auto")
    pairs.set_xticks(places, names, rotation=60, ha="right", fontsize=8.5)
    pairs.set_yticks(places, names, fontsize=8.5)
    pairs.set_title(f"Wrong together; worth {report.effective_votes:.1f} votes", loc="left")
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=110)


def _trust(axis: Any, overall: TrustByPeer, peers: Sequence[str]) -> None:
    probs = np.array([overall[peer].prob for peer in peers])
    ends = np.array([overall[peer].interval for peer in peers]).T
    away = np.abs(ends - probs)
    places = range(len(peers))
    axis.barh(places, probs, color="#1f6feb", alpha=0.8)
    axis.errorbar(probs, places, xerr=away, fmt="none", ecolor="#24292f", capsize=3)
    labels = [f"{_plain(peer)} ({overall[peer].effective:.0f})" for peer in peers]
    axis.set_yticks(places, labels)
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.set_title("Right with p̂, whatever the task (labels behind it)", loc="left")


def _trend(axis: Any, found: dict[str, History], window: int) -> None:
    for peer, record in list(found.items())[:_MOST_LINES]:
        times, share = record.rolling(window)
        if len(times):
            moments = [datetime.fromtimestamp(time, UTC) for time in times.tolist()]
            axis.plot(moments, share, label=_plain(peer), linewidth=1.6)
    axis.set_ylim(0, 1.02)
    axis.grid(alpha=0.25)
    axis.set_title(f"Share right over the last {window} labels", loc="left")
    if axis.lines:
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9, frameon=False)


def _relation(axis: Any, mem: SigmaMem, peers: Sequence[str]) -> None:
    state = mem.state
    places = [state.peers.index(peer) for peer in peers]
    g = state.G[np.ix_(places, places)]
    axis.imshow(g, cmap="PuOr_r", vmin=-0.6, vmax=0.6, aspect="auto")
    names = [_plain(peer) for peer in peers]
    axis.set_xticks(range(len(names)), names, rotation=30, fontsize=8.5)
    axis.set_yticks(range(len(names)), names, fontsize=8.5)
    axis.set_title("Right and wrong together (G)", loc="left")


def _plain(name: str) -> str:
    """A name without the signs that matplotlib takes for mathematics."""
    return name.replace("$", r"\$")
