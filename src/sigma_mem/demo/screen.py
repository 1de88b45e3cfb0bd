"""How a run is shown: on a terminal, in lines, as a table, and as plain values."""

import math
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sigma_mem.demo.agents import FAULTY, PEERS
from sigma_mem.demo.story import CEILING, READS, Story, related_pairs
from sigma_mem.demo.tasks import DOMAINS
from sigma_mem.events import FloatArray

_SIGMA = ("route", "vote", "decide")  # what the memory chose: printed bold


def _titled(title: str, *columns: str) -> Table:
    """A table without borders: a column of names, then these."""
    table = Table(
        title=title, box=None, padding=(0, 1), pad_edge=False, title_justify="left", title_style="bold"
    )
    for column in ("", *columns):
        table.add_column(column, header_style="bold cyan")
    return table


def _trust(story: Story) -> Table:
    known = "question and topic" if story.service else "the question alone"
    table = _titled(f"Trust from {known}, and labels behind it", *DOMAINS)
    means = story.trust_now()
    best = np.where(np.isnan(means[0]), -1.0, means[0]).argmax(axis=0)
    faulty = story.done > story.fault_at
    for row, peer in enumerate(PEERS):
        name = Text(peer, style="bold red" if faulty and peer == FAULTY else "bold")
        cells = zip(*means[:, row], best == row, strict=True)
        table.add_row(name, *(_cell(*cell) for cell in cells))
    return table


def _cell(prob: float, evidence: float, best: bool) -> Text:
    if math.isnan(prob):
        return Text("—", style="dim")
    colour = "green" if prob >= 0.75 else "yellow" if prob >= 0.45 else "red"
    return Text.assemble((f"{prob:4.0%}", f"{colour} bold" if best else colour), (f" {evidence:3.0f}", "dim"))


def _accuracy(story: Story, window: int = 100) -> Table:
    fixed = story.best_peer()
    table = _titled("Share of tasks answered right", "", "so far", f"last {window}")
    for name, note, row in (
        ("route", "asks one, chosen before", "route"),
        ("vote", "asks all, by trust", "vote"),
        ("decide", "asks all, learns to mix", "decide"),
        ("majority", "asks all, all count alike", "majority"),
        ("best fixed peer", f"{fixed}, in hindsight", fixed),
    ):
        shares = story.mean(row), story.mean(row, max(0, story.done - window))
        style = "bold cyan" if row in _SIGMA else "none"
        table.add_row(name, Text(note, style="dim"), *(f"{share:6.1%}" for share in shares), style=style)
    return table


def screen(story: Story) -> RenderableType:
    """Everything that is shown at one moment, at most 24 lines of 80 columns."""
    head = Table.grid(padding=(0, 2))
    where = Text(dashboard_address(story.service) if story.service else "", style="cyan")
    bar = ProgressBar(total=story.tasks, completed=story.done, width=16)
    head.add_row(Text("Σ-Mem demo", style="bold"), bar, f"task {story.done} of {story.tasks}", where)
    pairs = ", ".join(f"{a}–{b} {g:+.2f}" for a, b, g in related_pairs(story.relation))
    related = ("Right and wrong together: ", "bold"), pairs
    lines: list[RenderableType] = [head, _trust(story), Text(""), _accuracy(story)]
    lines.append(Text.assemble(*related, overflow="ellipsis", no_wrap=True))
    for notice in story.notices:
        style = "bold red" if notice.kind == "fault" else "bold green"
        lines.append(Text(f"Task {notice.number}: {notice.text}", style=style))
    if story.why:
        lines.append(Text.assemble(("Why: ", "bold"), story.why))
    return Group(*lines)


def dashboard_address(service: str) -> str:
    """The address at which a person sees the demo's memory."""
    return f"{service}/dashboard/"


def progress_line(story: Story) -> str:
    """One line: accuracy so far, and which agent the memory trusts most in every domain."""
    fixed = story.best_peer()
    shares = [f"{read} {story.mean(read):5.1%}" for read in READS]
    shares.append(f"best fixed ({fixed}) {story.mean(fixed):5.1%}")
    trusted = [
        f"{domain} {PEERS[int(probs.argmax())]} {probs.max():.0%}"
        for domain, probs in zip(DOMAINS, story.trust[-1].T, strict=True)
        if not np.isnan(probs).any()
    ]
    return f"task {story.done:5d}  {'  '.join(shares)}  | trusted: {', '.join(trusted)}"


def _shares(story: Story, row: str) -> dict[str, float]:
    fault = story.fault_at
    return {"before": story.mean(row, 0, fault), "after": story.mean(row, fault), "overall": story.mean(row)}


def table(story: Story) -> Table:
    """Accuracy before the fault, after it and overall: reads, best fixed peer, every peer, ceiling."""
    fixed = story.best_peer()
    out = Table(title=f"Share right; the fault comes after task {story.fault_at}", title_style="bold")
    out.add_column("")
    for name in ("before", "after", "overall"):
        out.add_column(name, justify="right")

    def add(row: str, name: str, style: str | None = None) -> None:
        out.add_row(name, *(f"{share:.1%}" for share in _shares(story, row).values()), style=style)

    for read in _SIGMA:
        add(read, f"Σ-Mem {read}", "bold")
    add("majority", "majority")
    add(fixed, f"best fixed peer, in hindsight ({fixed})")
    out.add_section()
    for peer in PEERS:
        add(peer, *((f"{peer} (goes bad)", "red") if peer == FAULTY else (peer,)))
    out.add_section()
    add(CEILING, CEILING)
    return out


def _by_name(probs: FloatArray) -> dict[str, dict[str, float | None]]:
    known = [[None if np.isnan(p) else round(float(p), 6) for p in row] for row in probs]
    return {peer: dict(zip(DOMAINS, row, strict=True)) for peer, row in zip(PEERS, known, strict=True)}


def result(story: Story, seed: int) -> dict[str, Any]:
    """The whole run as plain values: the same seed and size give the same object."""
    moved = {"domain": story.fault_domain, "events": story.events, "tasks": story.own_tasks}
    return {
        "seed": seed,
        "tasks": story.tasks,
        "peers": list(PEERS),
        "domains": list(DOMAINS),
        "fault": {"peer": FAULTY, "after_task": story.fault_at, "moved_away": moved if story.moved else None},
        "best_fixed_peer": story.best_peer(),
        "accuracy": {
            row: {k: round(v, 6) for k, v in _shares(story, row).items()} for row in (*READS, *PEERS, CEILING)
        },
        "trust": {"before": _by_name(story.trust[story.fault_at - 1]), "end": _by_name(story.trust[-1])},
        "together": [{"peers": [a, b], "G": round(g, 6)} for a, b, g in related_pairs(story.relation, 3)],
    }
