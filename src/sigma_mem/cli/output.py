"""What commands print: one JSON object, or tables for people."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from sigma_mem.events import Decision


def console() -> Console:
    """Standard output; as wide as it gets in a pipe, so that no line is broken there."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=200)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], remarks: Iterable[str] = ()) -> None:
    """Print a table, and lines below it."""
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    out = console()
    out.print(table)
    for line in remarks:
        out.print(line, markup=False)


def print_json(values: Mapping[str, Any]) -> None:
    """Print one object on one line, so that lines of several calls can be read one by one."""
    typer.echo(json.dumps(values, ensure_ascii=False, allow_nan=False))


def decision_values(decision: Decision) -> dict[str, Any]:
    """A decision as plain values, without φ."""
    return {
        "id": decision.id,
        "event": decision.event,
        "read": decision.read,
        "peer": decision.peer,
        "answer": decision.answer,
        "confidence": decision.confidence,
        "propensity": decision.propensity,
        "scores": dict(decision.scores),
        "probs": dict(decision.probs),
        "effective": dict(decision.effective),
        "canons": dict(decision.canons),
        "reads": dict(decision.reads),
    }


def print_decision(decision: Decision, memory: str) -> None:
    """Say who was chosen and why, and how to send feedback."""
    out = console()
    answer = f", who says {decision.answer!r}" if decision.answer is not None else ""
    out.print(f"{decision.peer}{answer} (confidence {decision.confidence:.0%})", markup=False, style="bold")
    text = decision.details.get("text_log_odds", {})
    columns = ("peer", "p right here", "evidence", "score φᵀMφ", *(("text log-odds",) if text else ()))
    table = Table(*columns, box=None, pad_edge=False)
    for peer in decision.probs:
        values = (
            f"{decision.probs[peer]:.2f}",
            f"{decision.effective[peer]:.1f}",
            f"{decision.scores[peer]:+.4f}",
            *((f"{text[peer]:+.2f}",) if text else ()),
        )
        table.add_row(peer, *values, style="bold" if peer == decision.peer else None)
    out.print(table)
    out.print(f"decision {decision.id} ({decision.read})", markup=False)
    labels = " ".join(f"{peer}=true" for peer in list(decision.probs)[:1])
    out.print(
        f"then: sigma-mem feedback --memory {memory} {decision.id} {labels} …", markup=False, style="dim"
    )
