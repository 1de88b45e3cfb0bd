"""``sigma-mem check``: verify that a memory file is whole."""

from contextlib import closing

import typer

from sigma_mem.cli.options import Json, MemoryFile, existing
from sigma_mem.cli.output import print_json


def check(memory: MemoryFile, json: Json = False) -> None:
    """Verify every line, index and digest of a memory file. Works while another process writes.

    Examples:
    sigma-mem check --memory memory.db
    """
    from sigma_mem.store.sqlite import SqliteStore

    with closing(SqliteStore(existing(memory), readonly=True)) as store:
        lines, names = store.verify(), store.namespaces()
    if json:
        print_json({"memory": str(memory), "lines": lines, "namespaces": names})
    else:
        typer.echo(f"{memory} is whole: {lines} lines in {len(names)} namespace{'s' * (len(names) != 1)}")
