"""``sigma-mem trust``, ``inspect``, ``decisions`` and ``explain``: read only."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import numpy as np
from typer import Option

from sigma_mem.admin.check import advice
from sigma_mem.answers.features import FEATURES
from sigma_mem.cli.options import Namespace, reads, takes
from sigma_mem.cli.output import Found, moment, print_table, sparkline
from sigma_mem.events import shortened
from sigma_mem.session import History, SigmaMem

_DECISION = ("id", "read", "peer", "confidence", "labels", "question")  # columns of `_decision_row`
_TRUST = ("p right", "95 %", "evidence", "all labels", "last label (UTC)")  # columns of `_trust_cells`
_TREND = 20_000  # lines at the end of a ledger that a trend is made of
_TOPICS = 12  # that are printed

Last = Annotated[int, Option("--last", "--limit", min=1, help="How many decisions, or events, to list.")]
Topic = Annotated[str | None, Option(help="Only those on this topic.")]


@reads
@takes("trust", "question")
def trust(mem: SigmaMem, **given: Any) -> Found:
    """Show how far each peer can be trusted: on a question, on a topic, or overall.

    Examples:
    sigma-mem trust --memory memory.db "What is 17 * 23?"

    sigma-mem trust --memory memory.db --topic arithmetic
    """
    values = mem.trust(**given).to_dict()
    return values, partial(_print_trust, values)


@reads
@takes("explain", "decision")
def explain(
    mem: SigmaMem,
    top: Annotated[int, Option(min=1, help="How many events to list.")] = 8,
    **given: Any,
) -> Found:
    """List the past events that weighed most in a decision.

    Example:
    sigma-mem explain --memory memory.db ID --peer coder
    """
    found = mem.explain(top=top, **given)
    return asdict(found), str(found)


@reads
@takes("decisions")
def decisions(mem: SigmaMem, last: Last = 20, topic: Topic = None, **given: Any) -> Found:
    """List decisions, newest first, page by page.

    Examples:
    sigma-mem decisions --memory memory.db --peer gemma --since 2026-01-31

    sigma-mem decisions --memory memory.db --label wrong --before ID
    """
    found = mem.decisions(last, topic=topic, **given)
    values = found.to_dict()
    rows = [(moment(made["time"]), *_decision_row(made)) for made in values["decisions"]]
    older = [f"older decisions: --before {rows[-1][1]}"] if len(rows) == last else []
    return values, partial(print_table, ("time (UTC)", *_DECISION), rows, older)


@reads
def inspect(
    mem: SigmaMem,
    namespace: Namespace = "default",
    peer: Annotated[str | None, Option(help="Show this peer's record instead.", show_default=False)] = None,
    last: Last = 8,
) -> Found:
    """Show trust, drift, relations, the last decisions and advice. Works while another process writes.

    Examples:
    sigma-mem inspect --memory memory.db

    sigma-mem inspect --memory memory.db --peer gemma --last 20
    """
    if peer is not None:
        record = mem.history(peer)
        return record.to_dict(), partial(_print_history, record, last)
    values = {"namespace": namespace, **_survey(mem, last)}
    return values, partial(_print_survey, values)


def _print_trust(values: Mapping[str, Any]) -> None:
    for name, peers in {"": values["peers"], **values["topics"]}.items():
        rows = [(peer, *_trust_cells(known)) for peer, known in peers.items()]
        print_table(("peer", *_TRUST), rows, title=f"\non {name}:" if name else "")
    about = "p right counts only tasks that the peer was asked; evidence is how many labels of similar tasks"
    print_table((), (), [f"\n{about} still count."])


def _trust_cells(known: dict[str, Any]) -> tuple[str, ...]:
    """What is known about a peer, from `TrustByPeer.to_dict`, in the columns of `_TRUST`."""
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


def _decision_row(made: Mapping[str, Any]) -> tuple[str, ...]:
    """A decision in the columns of `_DECISION`."""
    labels = " ".join(f"{peer}{c:+g}" for peer, c in made["labels"].items())
    question = shortened(made["question"] or "(no text kept)", 40)
    return made["id"], made["read"], made["peer"] or "—", f"{made['confidence']:.0%}", labels or "—", question


def _survey(mem: SigmaMem, decisions: int) -> dict[str, Any]:
    """Everything that is shown of a memory."""
    state, trust, records = mem.state, mem.trust().to_dict(), mem.history(lines=_TREND)
    found = state.copying()
    copying = np.zeros_like(state.G) if found is None else np.triu(found)
    kept = ("id", "event", "read", "peer", "answer", "confidence", "question", "topics")
    return {
        "namespaces": mem.store.namespaces(),
        "encoder": mem.encoder,
        "rank": state.rank,
        "settings": asdict(state.settings),
        **trust,
        "peers": {peer: {**known, "trend": records[peer].trend()} for peer, known in trust["peers"].items()},
        "relation": {peer: state.by_peer(row) for peer, row in zip(mem.peers, state.G, strict=True)},
        "copies": [
            {"peers": [mem.peers[p], mem.peers[q]], "degree": float(copying[p, q])}
            for p, q in np.argwhere(copying).tolist()
        ],
        "text_features": dict(zip(FEATURES, state.text_effects().tolist(), strict=False)),
        "advice": [str(found) for found in advice(mem)],
        "drift": [asdict(found) for found in mem.drift()],
        "decisions": [
            {**{key: getattr(made, key) for key in kept}, "labels": dict(made.labels)}
            for made in mem.decisions(decisions)
        ],
    }


def _print_survey(values: dict[str, Any]) -> None:
    peers, settings, topics = values["peers"], values["settings"], values["topics"]
    decay = f"half-life {settings['half_life']} s" if settings["half_life"] else f"γ = {settings['gamma']}"
    left_out = [name for name in values["namespaces"] if name != values["namespace"]]
    others = f" (the others: {', '.join(left_out)})" if left_out else ""
    head = (
        f"{values['events']} events in namespace {values['namespace']}{others}; "
        f"encoder {values['encoder']['name']} {values['encoder']['version']}, rank {values['rank']}, {decay}"
    )
    known = [(peer, *_trust_cells(found), sparkline(found["trend"])) for peer, found in peers.items()]
    print_table(("peer", *_TRUST, "trend"), known, title=f"{head}\n")
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
    print_table(_DECISION, map(_decision_row, values["decisions"]), title="\nLast decisions")
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
