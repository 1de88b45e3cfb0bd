"""The run as a picture: accuracy and trust over time, trust before and after, and G."""

from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.demo.agents import FAULTY, PEERS
from sigma_mem.demo.story import Story
from sigma_mem.demo.tasks import DOMAINS
from sigma_mem.events import FloatArray
from sigma_mem.extras import require
from sigma_mem.files import replace_file

_READS = {"route": "#1f6feb", "vote": "#1a7f37", "decide": "#8250df", "majority": "#9a6700"}
_FAULT, _MOVED = "#cf222e", "#1a7f37"
_PEERS = ("#6e7781", "#cf222e", "#1f6feb", "#1a7f37", "#8250df", "#d4a72c")


def draw_picture(story: Story, path: Path, window: int = 100) -> None:
    """Write the picture, as PNG or what the path's ending says; MissingExtraError without matplotlib."""
    require("matplotlib", extra="plot", purpose="the picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8.5), layout="constrained")
    axes: dict[str, Any] = figure.subplot_mosaic(
        [["accuracy", "accuracy", "accuracy"], ["trust", "trust", "trust"], ["before", "end", "G"]],
        height_ratios=(1.15, 1.0, 1.0),
    )
    _accuracy(axes["accuracy"], story, window)
    _trust(axes["trust"], story)
    _grid(
        axes["before"], story.trust_at_fault, DOMAINS, "trusted just before the fault (p̂)", "RdYlGn", (0, 1)
    )
    _grid(axes["end"], story.trust.probs(), DOMAINS, "trusted at the end (p̂)", "RdYlGn", (0, 1))
    _grid(axes["G"], story.relation, PEERS, "right and wrong together (G)", "PuOr_r", (-0.6, 0.6))
    figure.suptitle("Σ-Mem: who can be trusted, and when", fontsize=15, fontweight="bold")
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=110)


def _frame(axis: Any, story: Story, lowest: float, at: float) -> None:
    """Scales, grid, legend and the mark of the fault."""
    axis.axvline(story.fault_at, color=_FAULT, linestyle="--", linewidth=1.2)
    _note(axis, story.fault_at, at, f"{FAULTY} goes bad", _FAULT, before=True)
    axis.set_xlim(0, story.tasks)
    axis.set_ylim(lowest, 1.02)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9, frameon=False)


def _note(axis: Any, x: float, y: float, words: str, colour: str, before: bool = False) -> None:
    side, shift = ("right", -6) if before else ("left", 6)
    axis.annotate(
        words, (x, y), xytext=(shift, 0), textcoords="offset points", color=colour, fontsize=9, ha=side
    )


def _accuracy(axis: Any, story: Story, window: int) -> None:
    accuracy = story.accuracy
    fixed = accuracy.best_peer()
    tasks = np.arange(1, len(accuracy) + 1)
    shown = slice(min(window // 4, len(tasks) - 1), None)  # the mean of a handful says nothing
    for row, colour in {**_READS, fixed: "#6e7781"}.items():
        name = f"best fixed peer ({fixed})" if row == fixed else row
        style, width = ("-", 2.2) if row in ("route", "vote", "decide") else ("-.", 1.6)
        label = f"{name}\n  {accuracy.mean(row):.1%} overall"
        mean = accuracy.rolling(row, window)
        axis.plot(tasks[shown], mean[shown], style, color=colour, linewidth=width, label=label)
    _frame(axis, story, lowest=0.2, at=0.24)
    axis.set_title(f"Share right over the last {window} tasks", loc="left")


def _trust(axis: Any, story: Story) -> None:
    domain = story.fault.domain or DOMAINS[0]
    history = story.trust.history()[:, :, DOMAINS.index(domain)]
    tasks = np.arange(1, len(history) + 1)
    for row, peer in enumerate(PEERS):
        width = 2.6 if peer == FAULTY else 1.5
        axis.plot(tasks, history[:, row], color=_PEERS[row], linewidth=width, label=peer)
    _frame(axis, story, lowest=0.0, at=0.93)
    moved = story.fault.moved
    if moved is not None and moved.events:
        place = story.fault_at + moved.events
        axis.axvline(place, color=_MOVED, linestyle=":", linewidth=1.4)
        _note(axis, place, 0.93, f"the last {domain} task routed to it: {moved.events} events later", _MOVED)
    axis.set_title(
        f"Trust p̂ on {domain} tasks, read from the question alone (mean of the last 15)", loc="left"
    )
    axis.set_xlabel("task")


def _grid(
    axis: Any,
    values: FloatArray | None,
    columns: tuple[str, ...],
    title: str,
    colours: str,
    limits: tuple[float, float],
) -> None:
    shown = np.full((len(PEERS), len(columns)), np.nan) if values is None else values
    axis.imshow(shown, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
    for row, column in np.ndindex(shown.shape):
        if not np.isnan(shown[row, column]):
            text = f"{shown[row, column]:.0%}" if limits[0] == 0 else f"{shown[row, column]:+.2f}"
            place = (shown[row, column] - limits[0]) / (limits[1] - limits[0])
            colour = "white" if place < 0.12 or place > 0.88 else "black"
            axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=colour)
    axis.set_xticks(range(len(columns)), columns, rotation=0 if len(columns) < 5 else 30, fontsize=8.5)
    axis.set_yticks(range(len(PEERS)), PEERS, fontsize=8.5)
    axis.set_title(title, loc="left", fontsize=11)
