"""The run in text: the live screen, a line for a pipe, the table at the end, and the object for programs."""

import math
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sigma_mem.demo.agents import FAULTY, PEERS
from sigma_mem.demo.story import CEILING, READS, Story, related_pairs
from sigma_mem.demo.tasks import DOMAINS
from sigma_mem.events import FloatArray

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
    faulty = len(story.accuracy) > story.fault_at
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
    accuracy = story.accuracy
    fixed = accuracy.best_peer()
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
        for value in (accuracy.mean(row), accuracy.mean(row, max(0, len(accuracy) - window))):
            text = Text(bar(value, 10, blocks), style="cyan" if style == "bold" else "white")
            parts.append(text.append(f" {value:6.1%}", style=style))
        table.add_row(Text(name, style=style), Text(note, style="dim"), *parts)
    return table


def _head(story: Story, half_life: float, blocks: bool) -> Text:
    done = len(story.accuracy)
    text = Text("Σ-Mem demo  ", style="bold")
    text.append(bar(done / story.tasks, 20, blocks), style="magenta")
    text.append(f"  task {done} of {story.tasks}", style="none")
    text.append(f"   memory half-life {half_life:.0f} events", style="dim")
    return text


def screen(story: Story, half_life: float, blocks: bool = True) -> RenderableType:
    """Everything that is shown at one moment, at most 24 lines of 80 columns."""
    pairs = ", ".join(f"{a}–{b} {g:+.2f}" for a, b, g in related_pairs(story.relation))
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


def progress_line(story: Story) -> str:
    """One line: accuracy so far, and whom the memory trusts most in every domain."""
    accuracy = story.accuracy
    fixed = accuracy.best_peer()
    shares = [f"{read} {accuracy.mean(read):5.1%}" for read in ("route", "vote", "decide", "majority")]
    shares.append(f"best fixed ({fixed}) {accuracy.mean(fixed):5.1%}")
    probs = story.trust.probs()
    trusted = [
        f"{domain} {PEERS[int(probs[:, d].argmax())]} {probs[:, d].max():.0%}"
        for d, domain in enumerate(DOMAINS)
        if not np.isnan(probs[:, d]).any()
    ]
    return f"task {len(accuracy):5d}  {'  '.join(shares)}  | trusted: {', '.join(trusted)}"


def _shares(story: Story, row: str) -> dict[str, float]:
    mean, fault = story.accuracy.mean, story.fault_at
    return {"before": mean(row, 0, fault), "after": mean(row, fault), "overall": mean(row)}


def table(story: Story) -> Table:
    """Accuracy before the fault, after it and overall: reads, best fixed peer, every peer, ceiling."""
    fixed = story.accuracy.best_peer()
    out = Table(title=f"Share right; the fault comes after task {story.fault_at}", title_style="bold")
    out.add_column("")
    for name in ("before", "after", "overall"):
        out.add_column(name, justify="right")
    names = {"majority": "majority", fixed: f"best fixed peer, in hindsight ({fixed})"}
    for row in (*READS, fixed):
        shares = _shares(story, row).values()
        bold = "bold" if row in ("route", "vote", "decide") else None
        out.add_row(names.get(row, f"Σ-Mem {row}"), *(f"{share:.1%}" for share in shares), style=bold)
    out.add_section()
    for row in (*PEERS, CEILING):
        if row == CEILING:
            out.add_section()
        shares = _shares(story, row).values()
        name = f"{row} (goes bad)" if row == FAULTY else row
        out.add_row(name, *(f"{share:.1%}" for share in shares), style="red" if row == FAULTY else None)
    return out


def _by_name(probs: FloatArray | None) -> dict[str, dict[str, float | None]]:
    if probs is None:
        return {}
    return {
        peer: {
            domain: None if np.isnan(probs[row, column]) else round(float(probs[row, column]), 6)
            for column, domain in enumerate(DOMAINS)
        }
        for row, peer in enumerate(PEERS)
    }


def result(story: Story, seed: int) -> dict[str, Any]:
    """The whole run as plain values: the same seed and size give the same object."""
    moved = story.fault.moved
    return {
        "seed": seed,
        "tasks": story.tasks,
        "peers": list(PEERS),
        "domains": list(DOMAINS),
        "fault": {
            "peer": FAULTY,
            "after_task": story.fault_at,
            "moved_away": None
            if moved is None
            else {"domain": moved.domain, "events": moved.events, "tasks": moved.tasks},
        },
        "best_fixed_peer": story.accuracy.best_peer(),
        "accuracy": {
            row: {k: round(v, 6) for k, v in _shares(story, row).items()} for row in (*READS, *PEERS, CEILING)
        },
        "trust": {"before": _by_name(story.trust_at_fault), "end": _by_name(story.trust.probs())},
        "together": [{"peers": [a, b], "G": round(g, 6)} for a, b, g in related_pairs(story.relation, 3)],
    }
