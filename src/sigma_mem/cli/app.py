"""The ``sigma-mem`` command: options before the command's name, errors, exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from sigma_mem.cli.failure import KNOWN, failure
from sigma_mem.cli.lazy import LazyGroup

__all__ = ["main", "run"]

_app = typer.Typer(cls=LazyGroup, add_completion=False, pretty_exceptions_enable=False)


@_app.callback(invoke_without_command=True)
def _sigma_mem(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Σ-Mem, an online reliability memory: who can be trusted, and when.

    Start with: sigma-mem demo
    """
    if version:
        from sigma_mem import __version__

        typer.echo(f"sigma-mem {__version__}")
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), nl=False)
    else:
        return
    raise typer.Exit


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return its exit code: 0, 1 (it could not be done) or 2 (bad input)."""
    try:
        code = get_command(_app).main(
            args=None if arguments is None else list(arguments), prog_name="sigma-mem", standalone_mode=False
        )
    except KNOWN as error:
        met = failure(error)
        if met.message:
            print(f"sigma-mem: {met.message}", file=sys.stderr)
        return met.code
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the package's script."""
    sys.exit(run())
