"""The ``sigma-mem`` command: its commands, its errors and its exit codes."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from typer.main import get_command

from sigma_mem.cli import admin, center, decisions, service, upkeep, views
from sigma_mem.cli.commands import PANEL, Commands
from sigma_mem.cli.demo import demo
from sigma_mem.cli.pool import pool
from sigma_mem.decide import READS, Reads
from sigma_mem.errors import EncoderMismatchError, InputError, SigmaMemError


def build_app(reads: Reads = READS) -> typer.Typer:
    """The command line for these reads. What a command needs is imported when it runs, so help is quick."""
    app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(_sigma_mem)
    for panel, commands in _panels(reads).items():
        for name, command in commands.items():
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                app.command(name, rich_help_panel=panel)(command)
    return app


def _panels(reads: Reads) -> dict[str, dict[str, Callable[..., None] | typer.Typer]]:
    """Every command of the product by the panel of the help that lists it, and its name."""
    return {
        "Start": {"demo": demo},
        "Decide and teach": {**decisions.commands(reads), "learn": admin.learn},
        "Look": {
            "trust": views.trust,
            "inspect": views.inspect,
            "decisions": views.decisions,
            "explain": views.explain,
            "pool": pool,
        },
        "Keep": {
            "peers": upkeep.peers_app,
            "prices": upkeep.prices,
            "sources": upkeep.sources,
            "forget": upkeep.forget,
            "check": admin.check,
            "backup": admin.backup,
            "export": admin.export,
            "restore": admin.restore,
            "refold": admin.refold,
            "merge": admin.merge,
            "db": admin.db_app,
        },
        "Serve": {
            "serve": service.serve,
            "config": service.config,
            "keys": service.keys_app,
            "mcp": service.mcp,
        },
        PANEL: {"center": center.app},
    }


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


def run(arguments: Sequence[str] | None = None, reads: Reads = READS) -> int:
    """Run a command line; return its exit code.

    0 is success, 1 what could not be done, 2 bad input (a wrong option among it), 130 an interruption.
    Anything else that is raised is a bug, and keeps its trace.
    """
    try:
        code = get_command(build_app(reads)).main(arguments, prog_name="sigma-mem", standalone_mode=False)
    except typer.TyperException as error:
        message, context = error.format_message(), getattr(error, "ctx", None)
        if message and context is not None:
            message = f"{message.rstrip('.')}; see {context.command_path} --help"
        return _fail(message, 2)
    except typer.Abort:
        return _fail("stopped", 130)
    except (InputError, EncoderMismatchError) as error:
        return _fail(str(error), 2)
    except (SigmaMemError, OSError) as error:
        return _fail(str(error), 1)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    if message:  # it is empty where the help was printed instead
        print("sigma-mem:", " ".join(message.split()), file=sys.stderr)
    return code


def main() -> None:
    """Entry point of the package's script."""
    sys.exit(run())
