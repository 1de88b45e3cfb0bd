"""``sigma-mem forget``: events leave the ledger, the file and all that was learned."""

from typing import Annotated

import typer

from sigma_mem.cli.options import Json, MemoryFile, Namespace, opened
from sigma_mem.cli.output import say


def forget(
    memory: MemoryFile,
    decisions: Annotated[
        list[str] | None, typer.Argument(help="Ids of decisions, or refs of events.", show_default=False)
    ] = None,
    before: Annotated[str | None, typer.Option(help="All events decided before this date or time.")] = None,
    text: Annotated[
        str | None, typer.Option(help="All events with this text in question or answers.")
    ] = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Forget events for good: texts, φ, labels, and their share of all that was learned.

    Examples:
    sigma-mem forget --memory memory.db ID

    sigma-mem forget --memory memory.db --before 2025-01-01

    sigma-mem forget --memory memory.db --text "Jane Doe"
    """
    with opened(memory, namespace) as mem:
        events = mem.forget(decisions or None, before=before, text=text)
    say(json, {"forgotten": events}, f"{events} event{'' if events == 1 else 's'} forgotten")
