"""What the demo says at its end: a table for people, an object for programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from sigma_mem.events import FloatArray

from .agents import FAULTY, PEERS
from .league import CEILING
from .step import READS
from .story import Story, together
from .tasks import DOMAINS

__all__ = ["result", "table"]


def _shares(story: Story, row: str) -> dict[str, float]:
    accuracy, fault = story.league.accuracy, story.fault_at
    return {"before": accuracy(row, 0, fault), "after": accuracy(row, fault), "overall": accuracy(row)}


def table(story: Story) -> Table:
    """Accuracy before the fault, after it and overall: reads, best fixed peer, every peer, ceiling."""
    fixed = story.league.best_peer()
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
    moved = story.watch.moved
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
        "best_fixed_peer": story.league.best_peer(),
        "accuracy": {
            row: {k: round(v, 6) for k, v in _shares(story, row).items()} for row in (*READS, *PEERS, CEILING)
        },
        "trust": {"before": _by_name(story.trust_at_fault), "end": _by_name(story.trust.probs())},
        "together": [{"peers": [a, b], "G": round(g, 6)} for a, b, g in together(story.relation, 3)],
    }
