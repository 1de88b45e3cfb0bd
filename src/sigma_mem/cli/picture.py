"""A pool as a picture: accuracy with intervals, and which peers are wrong together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sigma_mem.extras import require
from sigma_mem.files import replace_file

if TYPE_CHECKING:
    from sigma_mem.streams.pool import PoolReport


def draw_pool(report: PoolReport, path: Path) -> None:
    """Write the picture; MissingExtraError without matplotlib."""
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


def _plain(name: str) -> str:
    """A name without the signs that matplotlib takes for mathematics."""
    return name.replace("$", r"\$")
