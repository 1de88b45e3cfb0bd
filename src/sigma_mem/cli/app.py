"""The ``sigma-mem`` command: its commands and those of other distributions, its errors and its exit codes."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup
from typer.main import get_command

from sigma_mem.cli import admin, center, decisions, evaluation, scores, service, upkeep, views
from sigma_mem.cli.demo import demo
from sigma_mem.errors import EncoderMismatchError, InputError, SigmaMemError

GROUP = "sigma_mem.commands"
PANEL = "Research"  # of the help that lists them
LABORATORY = ("bench", "data", "import", "paper", "train")


class Commands(TyperGroup):
    """The product's commands, and those that installed distributions name as entry points of `GROUP`.

    An entry point has the command's name and names a `typer.Typer`; one with a single command is that
    command. It is imported when its command is called or help is listed, not before.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, the product's first."""
        from importlib.metadata import entry_points

        for name in sorted(entry_points(group=GROUP).names):
            self.get_command(ctx, name)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, if there is one; InputError names what to install for it."""
        if cmd_name not in self.commands:
            self._load(cmd_name)
        return super().get_command(ctx, cmd_name)

    def _load(self, name: str) -> None:
        from importlib.metadata import entry_points

        for entry in entry_points(group=GROUP, name=name):
            command: Any = get_command(entry.load())
            command.name, command.rich_help_panel = name, PANEL
            self.add_command(command, name)
            return
        if name in LABORATORY:
            raise InputError(
                f"sigma-mem {name} is a command of the laboratory, which is not installed; "
                "run: pip install sigma-lab (in a clone: pip install ./lab)"
            )


def build_app() -> typer.Typer:
    """The command line."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(_sigma_mem)
    for panel, commands in _panels().items():
        for command in commands:
            if isinstance(command, typer.Typer):
                app.add_typer(command, rich_help_panel=panel)
            else:
                app.command(command.__name__, rich_help_panel=panel)(command)
    return app


def _panels() -> dict[str, list[Any]]:
    """Every command and group of the product, by the panel of the help that lists it."""
    d, a = decisions, admin
    return {
        "Start": [demo],
        "Decide and teach": [d.route, d.vote, d.decide, d.ask, d.feedback, scores.scores, a.learn],
        "Look": [
            *(views.trust, views.inspect, views.decisions, views.explain),
            *(evaluation.report, evaluation.evaluate, evaluation.pool),
        ],
        "Keep": [
            *(upkeep.peers_app, upkeep.prices, upkeep.sources, upkeep.forget),
            *(a.check, a.backup, a.export, a.restore, a.refold, a.merge, a.db_app),
        ],
        "Serve": [service.serve, service.config, service.keys_app, service.mcp],
        PANEL: [center.app],
    }


def _sigma_mem(
    ctx: typer.Context,
    version: Annotated[bool, Option("--version", help="Print the version and stop.")] = False,
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
    """Run a command line; return its exit code.

    0 is success, 1 what could not be done, 2 bad input (a wrong option among it), 130 an interruption.
    Anything else that is raised is a bug, and keeps its trace.
    """
    try:
        code = get_command(build_app()).main(arguments, prog_name="sigma-mem", standalone_mode=False)
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
    if message:  # it is empty if the help was printed instead
        print("sigma-mem:", " ".join(message.split()), file=sys.stderr)
    return code


def main() -> None:
    """Entry point of the package's script."""
    sys.exit(run())
