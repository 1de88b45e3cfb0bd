"""``sigma-mem inspect``: what is worth knowing of a memory, as numbers and as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigma_mem.cli.options import Json, MemoryFile, Namespace, opened_to_read
from sigma_mem.cli.output import moment, print_json, print_table, sparkline
from sigma_mem.events import shortened

if TYPE_CHECKING:
    from sigma_mem.memory import SigmaState
    from sigma_mem.session import History, SigmaMem

DECISION = ("id", "read", "peer", "confidence", "labels", "question")  # columns of `decision_row`
TRUST = ("p right", "95 %", "evidence", "all labels", "last label (UTC)")  # columns of `trust_cells`
_TREND = 20_000  # lines at the end of a ledger that a trend is made of
_TOPICS = 12  # that are printed


def inspect(
    memory: MemoryFile,
    peer: Annotated[
        str | None, typer.Option(help="Show this peer's record instead.", show_default=False)
    ] = None,
    last: Annotated[
        int,
        typer.Option("--last", "--limit", min=1, help="How many decisions, or events of a record, to list."),
    ] = 8,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Show trust, drift, relations, the last decisions and advice. Works while another process writes.

    Examples:
    sigma-mem inspect --memory memory.db

    sigma-mem inspect --memory memory.db --peer gemma --last 20
    """
    with opened_to_read(memory, namespace) as mem:
        if peer is not None:
            record = mem.history(peer)
            print_json(record.to_dict()) if json else _print_history(record, last)
        else:
            values = _survey(mem, namespace, last)
            print_json(values) if json else _print_survey(values)


def trust_cells(known: dict[str, Any]) -> tuple[str, ...]:
    """What is known about a peer, from `TrustByPeer.to_dict`, in the columns of `TRUST`."""
    low, high = known["interval"]
    numbers = f"{known['prob']:.2f}", f"{low:.2f} … {high:.2f}", f"{known['effective']:.1f}"
    return *numbers, str(known["labels"]), "never" if known["last"] is None else moment(known["last"])


def _print_history(found: History, last: int) -> None:
    rows = [
        (
            moment(entry.time),
            entry.event,
            "—" if entry.prob is None else f"{entry.prob:.2f}",
            "chosen" if entry.chosen else "",
            "—" if entry.label is None else f"{entry.label:+g}",
            shortened(entry.question),
        )
        for entry in found[-last:]
    ]
    header = ("time (UTC)", "event", "p right before", "", "label", "question")
    print_table(header, rows, [f"{repr(found)[1:-1]}; trend {sparkline(found.trend())}"])


def decision_row(made: Mapping[str, Any]) -> tuple[str, ...]:
    """A decision in the columns of `DECISION`."""
    labels = " ".join(f"{peer}{c:+g}" for peer, c in made["labels"].items())
    question = shortened(made["question"] or "(no text kept)", 40)
    return made["id"], made["read"], made["peer"] or "—", f"{made['confidence']:.0%}", labels or "—", question


def _survey(mem: SigmaMem, namespace: str, decisions: int) -> dict[str, Any]:
    """Everything that is shown of a memory."""
    from sigma_mem.admin.check import advice
    from sigma_mem.answers.features import FEATURES

    state, trust, records = mem.state, mem.trust().to_dict(), mem.history(lines=_TREND)
    kept = ("id", "event", "read", "peer", "answer", "confidence", "question", "topics")
    return {
        "namespace": namespace,
        "namespaces": mem.store.namespaces(),
        "encoder": mem.encoder,
        "rank": state.rank,
        "settings": asdict(state.settings),
        **trust,
        "peers": {peer: {**known, "trend": records[peer].trend()} for peer, known in trust["peers"].items()},
        "relation": {peer: state.by_peer(row) for peer, row in zip(mem.peers, state.G, strict=True)},
        "copies": _copies(state),
        "text_features": dict(zip(FEATURES, state.text_effects().tolist(), strict=False)),
        "advice": [str(found) for found in advice(mem)],
        "drift": [asdict(found) for found in mem.drift()],
        "decisions": [
            {**{key: getattr(made, key) for key in kept}, "labels": dict(made.labels)}
            for made in mem.decisions(decisions)
        ],
    }


def _copies(state: SigmaState) -> list[dict[str, Any]]:
    """Pairs of peers that answer as one, and how far."""
    import numpy as np

    d = state.copying()
    if d is None:
        return []
    pairs = np.argwhere(np.triu(d)).tolist()
    return [{"peers": [state.peers[p], state.peers[q]], "degree": float(d[p, q])} for p, q in pairs]


def _print_survey(values: dict[str, Any]) -> None:
    peers, settings, topics = values["peers"], values["settings"], values["topics"]
    decay = f"half-life {settings['half_life']} s" if settings["half_life"] else f"γ = {settings['gamma']}"
    left_out = [name for name in values["namespaces"] if name != values["namespace"]]
    others = f" (the others: {', '.join(left_out)})" if left_out else ""
    head = (
        f"{values['events']} events in namespace {values['namespace']}{others}; "
        f"encoder {values['encoder']['name']} {values['encoder']['version']}, rank {values['rank']}, {decay}"
    )
    known = [(peer, *trust_cells(found), sparkline(found["trend"])) for peer, found in peers.items()]
    print_table(("peer", *TRUST, "trend"), known, title=f"{head}\n")
    if topics:
        seen = {name: max(found["effective"] for found in by.values()) for name, by in topics.items()}
        most = sorted(seen, key=lambda name: -seen[name])[:_TOPICS]
        left = f", the {_TOPICS} of {len(seen)} with the most evidence" if len(seen) > _TOPICS else ""
        by_topic = [
            (shortened(name, 30), *(f"{x['prob']:.2f} ({x['effective']:.0f})" for x in topics[name].values()))
            for name in most
        ]
        print_table(("topic", *peers), by_topic, title=f"\nBy topic alone{left}")
    related = [(peer, *(f"{g:+.2f}" for g in row.values())) for peer, row in values["relation"].items()]
    print_table(("", *peers), related, title="\nRight and wrong together (G)")
    print_table(DECISION, map(decision_row, values["decisions"]), title="\nLast decisions")
    effects = sorted(values["text_features"].items(), key=lambda pair: -abs(pair[1]))
    shown = [(feature, f"{50 * effect:+.1f} %") for feature, effect in effects if abs(effect) >= 0.001]
    if shown:
        title = "\nText features: how p right changes with one standard deviation more"
        print_table(("feature", "p right"), shown, title=title)
    alike = ", ".join(f"{' and '.join(x['peers'])} ({x['degree']:.0%})" for x in values["copies"])
    changed = ", ".join(
        f"{x['peer']} ({x['was']:.0%} → {x['now']:.0%} since {x['since']}, {x['confidence']:.0%} sure)"
        for x in values["drift"]
    )
    remarks = [
        f"\n{len(peers)} peers that agree are worth {values['votes']:.1f} independent votes",
        f"copies of one another: {alike or 'none'}",
        f"drift: {changed or 'none'}",
        *(f"note: {advice}" for advice in values["advice"]),
    ]
    print_table((), (), remarks)
