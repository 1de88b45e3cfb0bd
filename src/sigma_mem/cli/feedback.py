"""``sigma-mem feedback``: say which peers were right."""

from __future__ import annotations

from typing import Annotated

import typer

from sigma_mem.cli.options import Json, MemoryFile, Namespace, existing, named_values
from sigma_mem.cli.output import print_json
from sigma_mem.errors import InputError
from sigma_mem.session import SigmaMem

__all__ = ["app"]

app = typer.Typer(add_completion=False)

_WORDS = {"true": True, "right": True, "yes": True, "false": False, "wrong": False, "no": False}


def _label(peer: str, text: str) -> bool | float:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"label of {peer!r} is {text!r}; expected true, false or a number from -1 (wrong) to 1 (right)"
        ) from None


@app.command()
def feedback(
    decision: Annotated[str, typer.Argument(help="Id of any decision on the task.", show_default=False)],
    labels: Annotated[
        list[str],
        typer.Argument(metavar="PEER=LABEL...", help="true, false, or -1 to 1.", show_default=False),
    ],
    memory: MemoryFile,
    source: Annotated[str, typer.Option(help="Who says so.")] = "default",
    id: Annotated[str | None, typer.Option(help="Of this feedback, for senders that retry.")] = None,
    amend: Annotated[
        bool, typer.Option("--amend", help="Replace what this source said of these peers before.")
    ] = False,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Say which peers were right: some or all of them, now or late. Returns once it is on disk.

    Examples:
    sigma-mem feedback --memory memory.db ID gemma=true phi=true coder=false --source unit-tests

    sigma-mem feedback --memory memory.db ID coder=true --source unit-tests --amend
    """
    said = {peer: _label(peer, text) for peer, text in named_values(labels, "label").items()}
    with SigmaMem(path=existing(memory), namespace=namespace) as mem:
        taken = mem.feedback(decision, said, source=source, id=id, amend=amend)
    if json:
        values = {"id": taken.id, "event": taken.event, "labels": dict(taken.labels), "source": taken.source}
        print_json({**values, "amends": taken.amends})
    else:
        told = ", ".join(f"{peer} {c:+g}" for peer, c in taken.labels.items())
        typer.echo(f"taken: {told} from {taken.source} on event {taken.event}")
