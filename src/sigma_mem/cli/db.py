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
    """Bring a memory's tables to this version. A file is upgraded when it is opened, too.

    Examples:
    sigma-mem db upgrade postgresql://sigma@db.example/memory

    sigma-mem db upgrade memory.db
    """
    from sigma_mem.store.open import upgrade_store

    before, after = upgrade_store(existing(memory))
    said = f"has version {after} already" if before == after else f"went from version {before} to {after}"
    say(json, {"before": before, "after": after}, f"{memory} {said}")
