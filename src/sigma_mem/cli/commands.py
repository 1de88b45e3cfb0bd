"""Commands that other distributions add to ``sigma-mem``, above all the laboratory."""

from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from sigma_mem.errors import InputError

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
