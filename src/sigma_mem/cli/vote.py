"""``sigma-mem vote``: choose among the peers' answers."""

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
    named_values,
    open_to_decide,
    text_of,
)
from sigma_mem.cli.output import decision_values, print_decision, print_json

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def vote(
    question: Annotated[str, typer.Argument(help='The task; "-" reads it from standard input.')],
    memory: MemoryFile,
    answer: Annotated[
        list[str], typer.Option("--answer", "-a", help="peer=text, once per peer.", show_default=False)
    ],
    peers: Peers = None,
    namespace: Namespace = "default",
    read: Annotated[
        str,
        typer.Option(
            help="calibrated-vote, expert-vote, m-vote, majority, posterior, posterior-no-g; "
            "adaptive takes the best here."
        ),
    ] = "calibrated-vote",
    after: After = None,
    encoder: EncoderName = None,
    gamma: Gamma = None,
    json: Json = False,
) -> None:
    """Choose among the peers' answers; equal ones vote together.

    Examples:
    sigma-mem vote --memory memory.db "What is 17 * 23?" --answer gemma=391 --answer coder=381

    sigma-mem vote --memory memory.db --after ID "What is 17 * 23?" -a gemma=391 -a coder=381 --json
    """
    answers = named_values(answer, "answer")
    with open_to_decide(memory, namespace, peers, encoder, gamma) as mem:
        if read == "adaptive":
            decision = mem.decide(text_of(question), answers, after=after)
        else:
            decision = mem.vote(text_of(question), answers, read=read, after=after)
    if json:
        print_json(decision_values(decision))
    else:
        print_decision(decision, str(memory))
