"""``sigma-mem sources`` and ``revoke``: who gave feedback, and taking back what somebody said."""

from dataclasses import asdict
from typing import Annotated

import typer

from sigma_mem.cli.options import Json, MemoryFile, Namespace, opened, opened_to_read
from sigma_mem.cli.output import print_json, print_table, say


def sources(memory: MemoryFile, namespace: Namespace = "default", json: Json = False) -> None:
    """List who gave feedback, and what each of them is worth now. Works while another process writes.

    Examples:
    sigma-mem sources --memory memory.db
    """
    with opened_to_read(memory, namespace) as mem:
        found = mem.sources()
    if json:
        print_json({"sources": [asdict(source) for source in found]})
        return
    rows = []
    for source in found:
        what = "revoked" if source.revoked else "trusted" if source.trusted else ""
        agreement = "—" if source.agreement is None else f"{source.agreement:.2f}"
        numbers = (agreement, f"{source.compared:.0f}", f"{source.weight:.3g}")
        rows.append((source.name, str(source.lines), what, *numbers))
    print_table(("source", "lines", "", "agreement", "labels compared", "weight"), rows)


def revoke(
    source: Annotated[str, typer.Argument(help="Whose feedback to take back.", show_default=False)],
    memory: MemoryFile,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the revocation back: all it said counts again.")
    ] = False,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Take back all feedback of a source: the memory is then as if it had never spoken.

    Examples:
    sigma-mem revoke --memory memory.db intern

    sigma-mem revoke --memory memory.db intern --undo
    """
    with opened(memory, namespace) as mem:
        lines = mem.unrevoke(source) if undo else mem.revoke(source)
    values = {"source": source, "revoked": not undo, "lines": lines}
    say(json, values, f"{source}: {lines} lines of feedback {'count again' if undo else 'taken back'}")
