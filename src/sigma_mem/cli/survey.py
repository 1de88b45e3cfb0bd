"""Everything that ``sigma-mem inspect`` shows of a memory: numbers, and tables for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from sigma_mem.answers.features import FEATURES
from sigma_mem.cli.output import console, sparkline
from sigma_mem.events import shortened

if TYPE_CHECKING:
    from sigma_mem.events import Decision, FloatArray
    from sigma_mem.memory import SigmaState
    from sigma_mem.session import SigmaMem

_TOPICS = 12  # that are printed

_TREND = 20_000  # lines at the end of a ledger that a trend is made of


def survey(mem: SigmaMem, namespace: str, decisions: int) -> dict[str, Any]:
    """Everything that is shown of a memory: peers, competence, evidence, relation, last decisions."""
    from sigma_mem.admin.check import advice

    state = mem.state
    recent = list(mem.decisions(1000))  # among them a question is looked for that illustrates a direction
    rate, labels = state.overall()
    overall = mem.trust()
    spectrum, records = np.linalg.eigvalsh(state.M), mem.history(lines=_TREND)
    peers = {
        peer: {
            "prob": float(rate[i]),
            "evidence": float(labels[i]),
            "largest_eigenvalue": float(spectrum[i, -1]),
            "smallest_eigenvalue": float(spectrum[i, 0]),
            "interval": list(overall[peer].interval),
            "trend": records[peer].trend(),
        }
        for i, peer in enumerate(mem.peers)
    }
    kept = ("id", "event", "read", "peer", "answer", "confidence", "question", "topics")
    last = [
        {**{key: getattr(made, key) for key in kept}, "labels": dict(made.labels)}
        for made in recent[:decisions]
    ]
    return {
        "namespace": namespace,
        "namespaces": mem.store.namespaces(),
        "encoder": mem.encoder,
        "rank": state.rank,
        "settings": asdict(state.settings),
        "events": state.clock,
        "peers": peers,
        "directions": _directions(mem, recent),
        "topics": overall.to_dict()["topics"],
        "relation": {peer: state.by_peer(row) for peer, row in zip(mem.peers, state.G, strict=True)},
        "relation_eigenvalues": np.linalg.eigvalsh(state.G)[::-1].tolist(),
        "effective_votes": effective_votes(state.G),
        "copies": _copies(state),
        "text_features": dict(zip(FEATURES, state.text_effects().tolist(), strict=False)),
        "advice": [str(found) for found in advice(mem)],
        "drift": [asdict(found) for found in mem.drift()],
        "decisions": last,
    }


def effective_votes(correlation: FloatArray) -> float:
    """How many independent votes P correlated ones are worth: (Σλ)²/Σλ² of their correlation.

    1 where all move together, P where they are independent.

    >>> effective_votes(np.ones((4, 4))), effective_votes(np.eye(4))
    (1.0, 4.0)
    """
    return float(np.trace(correlation) ** 2 / np.square(correlation).sum())


def _copies(state: SigmaState) -> list[dict[str, Any]]:
    """Pairs of peers that answer as one, and how far."""
    d = state.copying()
    if d is None:
        return []
    pairs = np.argwhere(np.triu(d)).tolist()
    return [{"peers": [state.peers[p], state.peers[q]], "degree": float(d[p, q])} for p, q in pairs]


def _directions(mem: SigmaMem, recent: list[Decision]) -> list[dict[str, Any]]:
    """Where most was seen: up to four leading eigenvectors of Σ_p N_p, and what is known of everybody there.

    A direction is illustrated by the recent question whose φ lies nearest to it.
    """
    state = mem.state
    values, vectors = np.linalg.eigh(state.N.sum(axis=0))
    total = values.sum()
    asked = [made for made in recent if made.question]
    mean_phi = np.add.reduce([made.phi for made in recent]) if recent else np.ones(state.rank)
    out = []
    for value, vector in zip(values[:-5:-1], vectors.T[:-5:-1], strict=True):
        if total <= 0 or value <= 1e-9 * total:
            break
        near = max(asked, key=lambda made: float(vector @ made.phi) ** 2, default=None)
        if float(vector @ (mean_phi if near is None else near.phi)) < 0.0:
            vector = -vector  # the sign of an eigenvector is arbitrary, and tasks lie on one side
        reading = state.read(vector)
        out.append(
            {
                "share": float(value / total),
                "like": None if near is None else near.question,
                "probs": state.by_peer(reading.prob),
                "effective": state.by_peer(reading.effective),
                "labels": state.by_peer(reading.labels),
                "alternatives": state.alternatives(vector),
            }
        )
    return out


def print_survey(values: dict[str, Any]) -> None:
    """Print a survey for people."""
    out, encoder, settings = console(), values["encoder"], values["settings"]
    decay = f"half-life {settings['half_life']} s" if settings["half_life"] else f"γ = {settings['gamma']}"
    out.print(
        f"{values['events']} events, namespace {values['namespace']} of {', '.join(values['namespaces'])}; "
        f"encoder {encoder['name']} {encoder['version']}, rank {values['rank']}, {decay}\n",
    )
    tables = [_competence(values), _relation(values), _decisions(values)]
    if values["topics"]:
        tables.insert(1, _topics(values))
    if any(values["text_features"].values()):
        tables.append(_text_features(values))
    for table in tables:
        out.print(table)
        out.print()
    count = len(values["peers"])
    out.print(f"{count} peers are worth {values['effective_votes']:.1f} independent votes")
    alike = ", ".join(f"{' and '.join(x['peers'])} ({x['degree']:.0%})" for x in values["copies"])
    out.print(f"copies of one another: {alike or 'none'}")
    changed = ", ".join(
        f"{x['peer']} ({x['was']:.0%} → {x['now']:.0%} since {x['since']}, {x['confidence']:.0%} sure)"
        for x in values["drift"]
    )
    out.print(f"drift: {changed or 'none'}")
    for advice in values["advice"]:
        out.print(f"note: {advice}")


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)


def _competence(values: dict[str, Any]) -> Table:
    columns = [f"{i}: {_short(found['like'], 22)}" for i, found in enumerate(values["directions"], start=1)]
    title = "Right with p̂ (evidence): overall, and where most was seen"
    table = _table(title, "peer", "overall", "95 %", "trend", *columns, "λ(M) from … to")
    for peer, known in values["peers"].items():
        low, high = known["interval"]
        cells = [f"{known['prob']:.2f} ({known['evidence']:.0f})", f"{low:.2f} … {high:.2f}"]
        cells.append(sparkline(known["trend"]))
        cells += [f"{d['probs'][peer]:.2f} ({d['effective'][peer]:.1f})" for d in values["directions"]]
        cells.append(f"{known['smallest_eigenvalue']:+.3f} … {known['largest_eigenvalue']:+.3f}")
        table.add_row(peer, *cells)
    return table


def _topics(values: dict[str, Any]) -> Table:
    """What is known of everybody on a task of which nothing but the topic is known."""
    seen = {name: max(known["effective"] for known in by.values()) for name, by in values["topics"].items()}
    most = sorted(seen, key=lambda name: -seen[name])[:_TOPICS]
    left = f", the {_TOPICS} of {len(seen)} with the most evidence" if len(seen) > _TOPICS else ""
    table = _table(f"By topic alone{left}", "topic", *values["peers"])
    for name in most:
        by_peer = [values["topics"][name][peer] for peer in values["peers"]]
        table.add_row(_short(name, 30), *(f"{x['prob']:.2f} ({x['effective']:.0f})" for x in by_peer))
    return table


def _relation(values: dict[str, Any]) -> Table:
    ends = values["relation_eigenvalues"]
    title = f"Right and wrong together (G); eigenvalues {ends[-1]:.2f} … {ends[0]:.2f}"
    table = _table(title, "", *values["relation"])
    for peer, row in values["relation"].items():
        table.add_row(peer, *(f"{g:+.2f}" for g in row.values()))
    return table


def _text_features(values: dict[str, Any]) -> Table:
    """Which features of an answer's text go with being right, strongest first."""
    table = _table("Text features", "feature, 1 σ more of it", "p right")
    for feature, effect in sorted(values["text_features"].items(), key=lambda pair: -abs(pair[1])):
        table.add_row(feature, f"{50 * effect:+.1f} %")
    return table


def _decisions(values: dict[str, Any]) -> Table:
    table = _table("Last decisions", "id", "read", "peer", "confidence", "said since", "question")
    for made in values["decisions"]:
        said = " ".join(f"{peer}{c:+g}" for peer, c in made["labels"].items()) or "—"
        cells = made["id"], made["read"], made["peer"] or "—", f"{made['confidence']:.0%}", said
        table.add_row(*cells, _short(made["question"], 40))
    return table


def _short(text: str | None, width: int) -> str:
    return shortened(text or "(no text kept)", width)
