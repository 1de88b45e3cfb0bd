"""``sigma-mem trust``, ``history``, ``decisions`` and ``plot``: look into a memory without touching it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigma_mem.cli.options import (
    Json,
    MemoryFile,
    Namespace,
    Topics,
    check_folder,
    names_of,
    opened_to_read,
    text_of,
)
from sigma_mem.cli.output import print_json, print_table, say
from sigma_mem.errors import InputError
from sigma_mem.events import shortened

if TYPE_CHECKING:
    from sigma_mem.session.looking import TrustByPeer

_PICTURES = (".png", ".svg", ".pdf")
_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(shares: list[float]) -> str:
    """Shares from 0 to 1 as small bars.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    return "".join(_BLOCKS[min(7, int(8 * share))] for share in shares)


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
        if question is None and not topic:
            table = mem.table()
            found, topics = table.overall, table.topics
        else:
            found, topics = mem.trust(None if question is None else text_of(question), topic=topic), {}
    if json:
        by_topic = {name: trusted.to_dict() for name, trusted in topics.items()}
        print_json({"trust": found.to_dict(), **({"topics": by_topic} if topics else {})})
        return
    _print_trust(found)
    for name, trusted in topics.items():
        typer.echo(f"\non {name}:")
        _print_trust(trusted)


def _print_trust(found: TrustByPeer) -> None:
    rows = []
    for peer, known in found.items():
        low, high = known.interval
        rows.append((peer, f"{known.prob:.2f}", f"{low:.2f} … {high:.2f}", f"{known.effective:.1f}"))
    print_table(("peer", "p right", "95 %", "evidence"), rows)


def history(
    peer: Annotated[str, typer.Argument(help="Whose record.", show_default=False)],
    memory: MemoryFile,
    last: Annotated[int, typer.Option(min=1, help="How many events to list.")] = 20,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Show a peer's record: what it was trusted with, and whether it was right. Changes nothing.

    Example:
    sigma-mem history --memory memory.db gemma
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.history(peer)
    if json:
        print_json(found.to_dict())
        return
    rows = [
        (
            _moment(entry.time),
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
                _moment(made.time),
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


def plot(
    memory: MemoryFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, SVG or PDF.")] = Path("memory.png"),
    peers: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    window: Annotated[int, typer.Option(min=1, help="Labels that a point of the trend averages.")] = 50,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Draw who is trusted, how that came about, and who is right and wrong together. Changes nothing.

    Example:
    sigma-mem plot --memory memory.db --output memory.png
    """
    from sigma_mem.cli.picture import draw_memory

    if output.suffix not in _PICTURES:
        raise InputError(f"got --output {output}; expected a name that ends in {', '.join(_PICTURES)}")
    check_folder("--output", output)
    with opened_to_read(memory, namespace) as mem:
        draw_memory(mem, output, names_of(peers), window)
    say(json, {"picture": str(output)}, f"picture: {output}")


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
