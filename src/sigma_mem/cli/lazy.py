"""A group of commands whose files are imported only when a command is run."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

__all__ = ["COMMANDS", "LazyGroup", "Mount"]


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a command lives: a Typer application in a module, or a function that is the command."""

    module: str
    help: str
    group: bool = False  # with commands of its own
    attribute: str = "app"

    def load(self) -> Any:
        """Import the module and make the command."""
        found = getattr(import_module(self.module), self.attribute)
        if isinstance(found, typer.Typer):
            return get_group(found) if self.group else get_command(found)
        alone = typer.Typer(add_completion=False)
        alone.command()(found)
        return get_command(alone)


COMMANDS = {
    "demo": Mount(
        "sigma_mem.cli.demo", "Watch six real agents, one of which goes bad, and the memory at work."
    ),
    "route": Mount("sigma_mem.cli.route", "Choose a peer for a question, before anyone answers."),
    "vote": Mount("sigma_mem.cli.vote", "Choose among the peers' answers."),
    "feedback": Mount("sigma_mem.cli.feedback", "Say which peers were right."),
    "inspect": Mount("sigma_mem.cli.inspect", "Look into a memory, or at why a decision was made."),
    "import": Mount(
        "sigma_mem.cli.importing", "Turn recordings of other tools into a stream.", attribute="import_"
    ),
    "bench": Mount("sigma_mem.cli.bench", "The paper's experiments, and timings.", group=True),
    "train": Mount("sigma_mem.cli.train", "Learn φ or a steering from a recorded stream.", group=True),
    "center": Mount("sigma_mem.cli.center", "Fetch, check and time the center model.", group=True),
}


class LazyGroup(TyperGroup):
    """Lists commands by name and one line of help; loads the one that is run."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, mount in COMMANDS.items():
            self.add_command(TyperCommand(name, help=mount.help), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments name, in place of its line of help."""
        mount = COMMANDS.get(args[0]) if args else None
        if mount is not None:
            self.add_command(mount.load(), args[0])
        return super().resolve_command(ctx, args)
