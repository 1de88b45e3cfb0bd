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
    _grid(axes["before"], "trusted just before the fault (p̂)", story.trust_at_fault, DOMAINS)
    _grid(axes["end"], "trusted at the end (p̂)", story.trust.history[-1], DOMAINS)
    _grid(axes["G"], "right and wrong together (G)", story.relation, PEERS)
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
    place = {"xytext": (-6 if before else 6, 0), "textcoords": "offset points"}
    axis.annotate(words, (x, y), color=colour, fontsize=9, ha="right" if before else "left", **place)


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
    history = np.array(story.trust.history)[:, :, DOMAINS.index(domain)]
    tasks = np.arange(1, len(history) + 1)
    for row, peer in enumerate(PEERS):
        width = 2.6 if peer == FAULTY else 1.5
        axis.plot(tasks, history[:, row], color=_PEERS[row], linewidth=width, label=peer)
    _frame(axis, story, lowest=0.0, at=0.93)
    events = story.fault.events
    if story.fault.moved and events:
        axis.axvline(story.fault_at + events, color=_MOVED, linestyle=":", linewidth=1.4)
        note = f"the last {domain} task routed to it: {events} events later"
        _note(axis, story.fault_at + events, 0.93, note, _MOVED)
    title = f"Trust p̂ on {domain} tasks, read from the question alone (mean of the last 15)"
    axis.set_title(title, loc="left")
    axis.set_xlabel("task")


def _grid(axis: Any, title: str, values: FloatArray | None, columns: tuple[str, ...]) -> None:
    """Numbers on colours: p̂ by peer and domain (None where it is not known), or G by peer and peer."""
    shown = np.full((len(PEERS), len(columns)), np.nan) if values is None else values
    trust, relation = (0, 1, "RdYlGn", ".0%"), (-0.6, 0.6, "PuOr_r", "+.2f")
    low, high, colours, form = trust if columns == DOMAINS else relation
    axis.imshow(shown, cmap=colours, vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(shown):
        if not np.isnan(value):
            colour = "black" if 0.12 <= (value - low) / (high - low) <= 0.88 else "white"
            axis.text(column, row, f"{value:{form}}", ha="center", va="center", fontsize=8.5, color=colour)
    axis.set_xticks(range(len(columns)), columns, rotation=0 if len(columns) < 5 else 30, fontsize=8.5)
    axis.set_yticks(range(len(PEERS)), PEERS, fontsize=8.5)
    axis.set_title(title, loc="left", fontsize=11)
