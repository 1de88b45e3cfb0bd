"""``sigma-mem inspect``: look into a memory, or at why a decision was made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sigma_mem.cli.options import Json, MemoryFile, Namespace, existing
from sigma_mem.cli.output import console, print_json
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_mem.session import SigmaMem


def inspect(
    memory: MemoryFile,
    namespace: Namespace = "default",
    decision: Annotated[str | None, typer.Option(help="Explain this decision.", show_default=False)] = None,
    peer: Annotated[
        str | None,
        typer.Option(help="With --decision: whose score to take apart; the chosen peer's by default."),
    ] = None,
    top: Annotated[
        int, typer.Option(help="How many decisions, or events of an explanation, to list.", min=1)
    ] = 8,
    json: Json = False,
) -> None:
    """Look into a memory, or at why a decision was made. Works while another process writes.

    Examples:
    sigma-mem inspect --memory memory.db

    sigma-mem inspect --memory memory.db --decision ID --peer coder
    """
    from sigma_mem.cli.survey import survey

    if peer is not None and decision is None:
        raise InputError("got --peer without --decision; expected the decision to explain")
    with _reading(memory, namespace) as mem:
        if decision is not None:
            found = mem.explain(decision, peer=peer, top=top)
            if json:
                print_json(asdict(found))
            else:
                typer.echo(str(found))
            return
        values = survey(mem, namespace, decisions=top)
    if json:
        print_json(values)
    else:
        _print(console(), values)


@contextmanager
def _reading(memory: Path, namespace: str) -> Iterator[SigmaMem]:
    from sigma_mem.session import SigmaMem
    from sigma_mem.store.open import open_store

    store = open_store(existing(memory), readonly=True)
    try:
        if namespace not in store.namespaces():
            raise InputError(f"got namespace {namespace!r}; expected one of {store.namespaces()} of {memory}")
        yield SigmaMem(store=store, namespace=namespace)
    finally:
        store.close()


def _print(out: Console, values: dict[str, Any]) -> None:
    encoder, settings = values["encoder"], values["settings"]
    decay = f"half-life {settings['half_life']} s" if settings["half_life"] else f"γ = {settings['gamma']}"
    out.print(
        f"{values['events']} events, namespace {values['namespace']} of {', '.join(values['namespaces'])}; "
        f"encoder {encoder['name']} {encoder['version']}, rank {values['rank']}, {decay}\n",
        markup=False,
    )
    for table in (_competence(values), _relation(values), _decisions(values)):
        out.print(table)
        out.print()
    if any(values["text_features"].values()):
        out.print(_text_features(values))
        out.print()
    count = len(values["peers"])
    out.print(f"{count} peers are worth {values['effective_votes']:.1f} independent votes", highlight=False)


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)


def _competence(values: dict[str, Any]) -> Table:
    columns = [f"{i}: {_short(found['like'], 22)}" for i, found in enumerate(values["directions"], start=1)]
    table = _table(
        "Right with p̂ (evidence): overall, and where most was seen",
        "peer",
        "overall",
        *columns,
        "λ(M) from … to",
    )
    for peer, known in values["peers"].items():
        cells = [f"{known['prob']:.2f} ({known['evidence']:.0f})"]
        cells += [f"{d['probs'][peer]:.2f} ({d['effective'][peer]:.1f})" for d in values["directions"]]
        cells.append(f"{known['smallest_eigenvalue']:+.3f} … {known['largest_eigenvalue']:+.3f}")
        table.add_row(peer, *cells)
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
        cells = made["id"], made["read"], made["peer"], f"{made['confidence']:.0%}", said
        table.add_row(*cells, Text(_short(made["question"], 40)))
    return table


def _short(text: str | None, width: int) -> str:
    flat = " ".join((text or "(no text kept)").split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
