"""``sigma-mem db``: the version of a memory's tables."""

from pathlib import Path
from typing import Annotated

import typer

from sigma_mem.cli.options import Json, existing, memory_path
from sigma_mem.cli.output import say

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The tables of a memory.")


@app.callback()
def _db() -> None:
    """The tables of a memory."""


@app.command()
def upgrade(
    memory: Annotated[
        Path,
        typer.Argument(
            help="The memory: postgresql://…, or a file.",
            show_default=False,
            parser=memory_path,
            metavar="URL_OR_PATH",
        ),
    ],
    json: Json = False,
) -> None:
    """Bring a memory's tables to this version. A file is upgraded when it is opened, too, after a backup.

    Examples:
    sigma-mem db upgrade postgresql://sigma@db.example/memory

    sigma-mem db upgrade memory.db
    """
    from sigma_mem.store.postgres import is_postgres, upgrade_postgres
    from sigma_mem.store.sqlite import upgrade_file

    backup = None
    if is_postgres(memory):
        before, after = upgrade_postgres(memory)
    else:
        before, after, backup = upgrade_file(existing(memory))
    values = {"before": before, "after": after, "backup": None if backup is None else str(backup)}
    kept = "" if backup is None else f"; the file as it was: {backup}"
    said = f"has version {after} already" if before == after else f"went from version {before} to {after}"
    say(json, values, f"{memory} {said}{kept}")
