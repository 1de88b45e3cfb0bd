"""The live screen of the demo, for a terminal."""

from __future__ import annotations

import math

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .agents import FAULTY, PEERS
from .story import Story, together
from .tasks import DOMAINS

__all__ = ["screen"]

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 6


def bar(share: float, width: int = _WIDTH, blocks: bool = True) -> str:
    """A bar of `width` characters, filled to `share`.

    >>> bar(0.5, width=4), bar(0.5, width=4, blocks=False)
    ('██  ', '##  ')
    """
    share = min(max(share, 0.0), 1.0)
    if not blocks:
        return ("#" * round(share * width)).ljust(width)
    full, part = divmod(round(share * width * 8), 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(width)


def _colour(prob: float) -> str:
    return "green" if prob >= 0.75 else "yellow" if prob >= 0.45 else "red"


def _cell(prob: float, effective: float, best: bool, blocks: bool) -> Text:
    if math.isnan(prob):
        return Text("—", style="dim")
    cell = Text(bar(prob, blocks=blocks), style=_colour(prob))
    cell.append(f" {prob:4.0%}", style="bold" if best else "not bold")
    cell.append(f" {effective:2.0f}", style="dim")
    return cell


def _trust(story: Story, blocks: bool) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, title_justify="left", title_style="bold")
    table.title = "Who is trusted for what: p̂ from the question alone, and its evidence"
    table.add_column("", min_width=11)
    for domain in DOMAINS:
        table.add_column(domain, style="none", header_style="bold cyan")
    probs, effective = story.trust.probs(), story.trust.effective()
    faulty = len(story.league) > story.fault_at
    known = np.where(np.isnan(probs), -1.0, probs)
    for row, peer in enumerate(PEERS):
        name = Text(peer, style="bold red" if faulty and peer == FAULTY else "bold")
        cells = [
            _cell(probs[row, d], effective[row, d], bool(known[:, d].argmax() == row), blocks)
            for d in range(len(DOMAINS))
        ]
        table.add_row(name, *cells)
    return table


def _accuracy(story: Story, blocks: bool, window: int = 100) -> Table:
    league = story.league
    fixed = league.best_peer()
    rows = [
        ("route", "before anyone answers", "route"),
        ("vote", "weighted by p̂", "vote"),
        ("decide", "adaptive", "decide"),
        ("majority", "one peer, one vote", "majority"),
        ("best fixed peer", f"{fixed}, in hindsight", fixed),
    ]
    table = Table(box=None, padding=(0, 1), pad_edge=False, title_justify="left", title_style="bold")
    table.title = "Share of tasks answered right"
    for name in ("", ""):
        table.add_column(name)
    table.add_column("so far", header_style="bold cyan")
    table.add_column(f"last {window}", header_style="bold cyan")
    for name, note, row in rows:
        style = "bold" if row in ("route", "vote", "decide") else "none"
        parts = []
        for value in (league.accuracy(row), league.accuracy(row, max(0, len(league) - window))):
            text = Text(bar(value, 10, blocks), style="cyan" if style == "bold" else "white")
            parts.append(text.append(f" {value:6.1%}", style=style))
        table.add_row(Text(name, style=style), Text(note, style="dim"), *parts)
    return table


def _head(story: Story, half_life: float, blocks: bool) -> Text:
    done = len(story.league)
    text = Text("Σ-Mem demo  ", style="bold")
    text.append(bar(done / story.tasks, 20, blocks), style="magenta")
    text.append(f"  task {done} of {story.tasks}", style="none")
    text.append(f"   memory half-life {half_life:.0f} events", style="dim")
    return text


def screen(story: Story, half_life: float, blocks: bool = True) -> RenderableType:
    """Everything that is shown at one moment, at most 24 lines of 80 columns."""
    pairs = ", ".join(f"{a}–{b} {g:+.2f}" for a, b, g in together(story.relation))
    lines: list[RenderableType] = [
        _head(story, half_life, blocks),
        _trust(story, blocks),
        Text(""),
        _accuracy(story, blocks),
    ]
    lines.append(
        Text.assemble(("Right and wrong together (G): ", "bold"), pairs, overflow="ellipsis", no_wrap=True)
    )
    for notice in story.notices:
        style = "bold red" if notice.kind == "fault" else "bold green"
        lines.append(Text(f"Task {notice.number}: {notice.text}", style=style))
    if story.why:
        lines.append(Text.assemble(("Why: ", "bold"), story.why))
    return Group(*lines)
