"""``sigma-mem route``: choose a peer before anyone answers."""

from __future__ import annotations

from typing import Annotated

import typer

from sigma_mem.cli.options import (
    After,
    EncoderName,
    Gamma,
    Json,
    MemoryFile,
    Namespace,
    Peers,
    open_to_decide,
    text_of,
)
from sigma_mem.cli.output import decision_values, print_decision, print_json

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def route(
    question: Annotated[str, typer.Argument(help='The task; "-" reads it from standard input.')],
    memory: MemoryFile,
    peers: Peers = None,
    namespace: Namespace = "default",
    read: Annotated[str, typer.Option(help="calibrated-route, or the paper's m-route.")] = "calibrated-route",
    explore: Annotated[
        bool,
        typer.Option("--explore", help="Try the others too, where only the chosen peer will be labelled."),
    ] = False,
    after: After = None,
    encoder: EncoderName = None,
    gamma: Gamma = None,
    json: Json = False,
) -> None:
    """Choose a peer for a question, before anyone answers.

    Examples:
    sigma-mem route --memory memory.db --peers gemma,phi,coder "What is 17 * 23?"

    sigma-mem route --memory memory.db --json "What is 17 * 23?"
    """
    with open_to_decide(memory, namespace, peers, encoder, gamma) as mem:
        decision = mem.route(text_of(question), read=read, explore=explore, after=after)
    if json:
        print_json(decision_values(decision))
    else:
        print_decision(decision, str(memory))
