"""``sigma-mem sources`` and ``revoke``: who gave feedback, and taking back what somebody said."""

from contextlib import closing
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sigma_mem.cli.options import Json, MemoryFile, Namespace, existing
from sigma_mem.cli.output import console, print_json


def sources(memory: MemoryFile, namespace: Namespace = "default", json: Json = False) -> None:
    """List who gave feedback, and what each of them is worth now. Works while another process writes.

    Examples:
    sigma-mem sources --memory memory.db
    """
    from sigma_mem.session import SigmaMem
    from sigma_mem.store.open import open_store

    with closing(open_store(existing(memory), readonly=True)) as store:
        found = SigmaMem(store=store, namespace=namespace).sources()
    if json:
        print_json({"sources": [asdict(source) for source in found]})
        return
    table = Table("source", "lines", "", "agreement", "labels compared", "weight", box=None, pad_edge=False)
    for source in found:
        what = "revoked" if source.revoked else "trusted" if source.trusted else ""
        agreement = "—" if source.agreement is None else f"{source.agreement:.2f}"
        numbers = (agreement, f"{source.compared:.0f}", f"{source.weight:.3g}")
        table.add_row(Text(source.name), str(source.lines), what, *numbers)
    console().print(table)


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
    from sigma_mem.session import SigmaMem

    with SigmaMem(path=existing(memory), namespace=namespace) as mem:
        lines = mem.unrevoke(source) if undo else mem.revoke(source)
    if json:
        print_json({"source": source, "revoked": not undo, "lines": lines})
    else:
        typer.echo(f"{source}: {lines} lines of feedback {'count again' if undo else 'taken back'}")
