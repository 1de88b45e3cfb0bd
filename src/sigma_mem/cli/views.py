"""``sigma-mem trust``, ``inspect``, ``decisions`` and ``explain``: look into a memory without touching it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigma_mem.cli.options import (
    Json,
    MemoryFile,
    Namespace,
    Topics,
    check_folder,
    opened_to_read,
    text_of,
)
from sigma_mem.cli.output import moment, print_json, print_table, say, sparkline
from sigma_mem.errors import InputError
from sigma_mem.events import shortened

if TYPE_CHECKING:
    from sigma_mem.session import History, TrustByPeer

_PICTURES = (".png", ".svg", ".pdf")


def trust(
    memory: MemoryFile,
    question: Annotated[
        str | None, typer.Argument(help='The task; "-" reads it from standard input; none for any task.')
    ] = None,
    topic: Topics = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Say how far each peer can be trusted, at a question or topic, or whatever the task. Changes nothing.

    Examples:
    sigma-mem trust --memory memory.db "What is 17 * 23?"

    sigma-mem trust --memory memory.db --topic arithmetic
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.trust(None if question is None else text_of(question), topic=topic)
    if json:
        print_json(found.to_dict())
        return
    _print_trust(found)
    for name, trusted in found.topics.items():
        typer.echo(f"\non {name}:")
        _print_trust(trusted)


def _print_trust(found: TrustByPeer) -> None:
    rows = []
    for peer, known in found.items():
        low, high = known.interval
        rows.append((peer, f"{known.prob:.2f}", f"{low:.2f} … {high:.2f}", f"{known.effective:.1f}"))
    print_table(("peer", "p right", "95 %", "evidence"), rows)


def inspect(
    memory: MemoryFile,
    peer: Annotated[
        str | None, typer.Option(help="Show this peer's record instead.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the memory instead: PNG, SVG or PDF.", show_default=False)
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="How many decisions, or events of a record, to list.")] = 8,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Look into a memory: trust, drift, relation, last decisions, advice. Works while another process writes.

    Examples:
    sigma-mem inspect --memory memory.db

    sigma-mem inspect --memory memory.db --peer gemma --last 20

    sigma-mem inspect --memory memory.db --plot memory.png
    """
    from sigma_mem.cli.survey import print_survey, survey

    if peer is not None and plot is not None:
        raise InputError("got --peer and --plot; expected one of them")
    with opened_to_read(memory, namespace) as mem:
        if peer is not None:
            _print_history(mem.history(peer), last, json)
        elif plot is not None:
            from sigma_mem.cli.picture import draw_memory

            if plot.suffix not in _PICTURES:
                raise InputError(f"got --plot {plot}; expected a name that ends in {', '.join(_PICTURES)}")
            check_folder("--plot", plot)
            draw_memory(mem, plot)
            say(json, {"picture": str(plot)}, f"picture: {plot}")
        else:
            values = survey(mem, namespace, last)
            print_json(values) if json else print_survey(values)


def _print_history(found: History, last: int, json: bool) -> None:
    if json:
        print_json(found.to_dict())
        return
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
    header = ("time (UTC)", "event", "p̂ then", "", "label", "question")
    print_table(header, rows, [f"{repr(found)[1:-1]}; trend {sparkline(found.trend())}"])


def explain(
    decision: Annotated[str, typer.Argument(help="Id of the decision, or the ref of its event.")],
    memory: MemoryFile,
    peer: Annotated[
        str | None, typer.Option(help="Whose score to take apart; the chosen peer's by default.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many events to list.", min=1)] = 8,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Name the past events that weighed most in a decision. Changes nothing.

    Example:
    sigma-mem explain --memory memory.db ID --peer coder
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.explain(decision, peer=peer, top=top)
    say(json, asdict(found), str(found))


def decisions(
    memory: MemoryFile,
    last: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    before: Annotated[
        str | None,
        typer.Option(help="Only decisions older than this one, for the next page."),
    ] = None,
    peer: Annotated[str | None, typer.Option(help="Only those that chose this peer.")] = None,
    read: Annotated[str | None, typer.Option(help="Only those by this read.")] = None,
    since: Annotated[str | None, typer.Option(help="Only from this date or time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only before this date or time.")] = None,
    text: Annotated[str | None, typer.Option(help="Only those with this text in question or answer.")] = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """List decisions, newest first, page by page. Changes nothing.

    Examples:
    sigma-mem decisions --memory memory.db --peer gemma --since 2026-01-31

    sigma-mem decisions --memory memory.db --before ID
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.decisions(last, before=before, peer=peer, read=read, since=since, until=until, text=text)
        if json:
            print_json(found.to_dict())
            return
        rows = [
            (
                moment(made.time),
                made.id,
                made.read,
                made.peer or "—",
                f"{made.confidence:.0%}",
                shortened(made.question),
            )
            for made in found
        ]
    older = [f"older ones: --before {rows[-1][1]}"] if len(rows) == last else []
    print_table(("time (UTC)", "id", "read", "peer", "confidence", "question"), rows, older)
