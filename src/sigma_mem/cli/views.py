"""``sigma-mem trust``, ``decisions``, ``explain`` and ``pool``: read only."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sigma_mem.cli.inspect import DECISION, TRUST, decision_row, trust_cells
from sigma_mem.cli.options import (
    Json,
    MemoryFile,
    Namespace,
    Topics,
    check_picture,
    names_of,
    opened_to_read,
    text_of,
)
from sigma_mem.cli.output import moment, print_json, print_table, say

if TYPE_CHECKING:
    from sigma_mem.streams.pool import PoolReport


def trust(
    memory: MemoryFile,
    question: Annotated[
        str | None, typer.Argument(help='The task; "-" reads it from standard input. Left out for any task.')
    ] = None,
    topic: Topics = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Show how far each peer can be trusted: on a question, on a topic, or overall.

    Examples:
    sigma-mem trust --memory memory.db "What is 17 * 23?"

    sigma-mem trust --memory memory.db --topic arithmetic
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.trust(None if question is None else text_of(question), topic=topic)
    if json:
        print_json(found.to_dict())
        return
    values = found.to_dict()
    print_table(("peer", *TRUST), [(peer, *trust_cells(known)) for peer, known in values["peers"].items()])
    for name, peers in values["topics"].items():
        rows = [(peer, *trust_cells(known)) for peer, known in peers.items()]
        print_table(("peer", *TRUST), rows, title=f"\non {name}:")
    typer.echo(
        "\np right counts only tasks that the peer was asked; "
        "evidence is how many labels of similar tasks still count."
    )


def explain(
    decision: Annotated[str, typer.Argument(help="Id of the decision, or the ref of its event.")],
    memory: MemoryFile,
    peer: Annotated[
        str | None, typer.Option(help="Peer whose score to explain; the chosen one by default.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many events to list.", min=1)] = 8,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """List the past events that weighed most in a decision.

    Example:
    sigma-mem explain --memory memory.db ID --peer coder
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.explain(decision, peer=peer, top=top)
    say(json, asdict(found), str(found))


def decisions(
    memory: MemoryFile,
    last: Annotated[int, typer.Option("--last", "--limit", min=1, help="How many to list.")] = 20,
    before: Annotated[
        str | None,
        typer.Option(help="Only decisions older than this one, for the next page."),
    ] = None,
    peer: Annotated[str | None, typer.Option(help="Only those that chose this peer.")] = None,
    read: Annotated[str | None, typer.Option(help="Only those by this read.")] = None,
    since: Annotated[str | None, typer.Option(help="Only from this date or time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only before this date or time.")] = None,
    text: Annotated[str | None, typer.Option(help="Only those with this text in question or answer.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only those on this topic.")] = None,
    label: Annotated[
        Literal["right", "wrong", "none"] | None, typer.Option(help="Only those with this label, or none.")
    ] = None,
    below: Annotated[
        float | None, typer.Option(help="Only those with less confidence.", min=0.0, max=1.0)
    ] = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """List decisions, newest first, page by page.

    Examples:
    sigma-mem decisions --memory memory.db --peer gemma --since 2026-01-31

    sigma-mem decisions --memory memory.db --label wrong --before ID
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.decisions(
            last, before=before, peer=peer, read=read, since=since, until=until, text=text,
            topic=topic, label=label, below=below,
        )  # fmt: skip
        if json:
            print_json(found.to_dict())
            return
        rows = [(moment(made["time"]), *decision_row(made)) for made in found.to_dict()["decisions"]]
    older = [f"older decisions: --before {rows[-1][1]}"] if len(rows) == last else []
    print_table(("time (UTC)", *DECISION), rows, older)


_PAIRS = 8  # that are printed


def pool(
    stream: Annotated[Path, typer.Argument(help="A recorded stream with labels: JSON lines, .gz or .zst.")],
    peers: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw accuracy and error correlation: PNG, SVG or PDF.")
    ] = None,
    json: Json = False,
) -> None:
    """Report which peers of a pool are right, which err together, and which add nothing.

    Example:
    sigma-mem pool verdicts.jsonl --picture pool.png
    """
    from sigma_mem.streams import load_stream
    from sigma_mem.streams.pool import pool_report

    if picture is not None:
        check_picture("--picture", picture)
    report = pool_report(load_stream(stream).select(peers=names_of(peers)))
    if picture is not None:
        from sigma_mem.cli.picture import draw_pool

        draw_pool(report, picture)
    if json:
        print_json(report.values())
    else:
        _print_pool(report)


def _print_pool(report: PoolReport) -> None:
    orders = any(line.consistent is not None for line in report.peers)
    header = ["peer", "labels", "right", "95 %", "adds", *(["same in both orders"] if orders else [])]
    rows = []
    for line in sorted(report.peers, key=lambda line: -line.accuracy):
        row = [line.peer, str(line.labels), f"{line.accuracy:.1%}", f"{line.low:.1%} … {line.high:.1%}"]
        row.append(f"{100 * line.adds:+.1f} ± {100 * line.adds_error:.1f}")
        if orders:
            row.append("—" if line.consistent is None else f"{line.consistent:.1%}")
        rows.append(row)
    remarks = [
        "",
        f"majority {report.majority:.1%}, best peer {report.best:.1%}, "
        f"joint vote {report.joint:.1%} (weights from the other four fifths)",
        f"{len(report.peers)} peers are worth {report.effective_votes:.1f} independent votes",
        f"add nothing: {', '.join(report.redundant) or 'none'}",
    ]
    remarks += [
        f"deceive together: {one} and {other}, the same wrong answer in {line.together:.1%} of the events, "
        f"{line.expected:.1%} by chance"
        for line in report.deceiving[:_PAIRS]
        for one, other in [line.peers]
    ]
    print_table(header, rows, remarks)
