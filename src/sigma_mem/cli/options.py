"""Options that several commands share, and what their values mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sigma_mem.errors import InputError
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem

__all__ = [
    "After",
    "EncoderName",
    "Gamma",
    "Json",
    "MemoryFile",
    "Namespace",
    "Peers",
    "existing",
    "named_values",
    "open_to_decide",
    "text_of",
]

MemoryFile = Annotated[Path, typer.Option("--memory", "-m", help="The memory's file.", show_default=False)]
Namespace = Annotated[str, typer.Option(help="Which of the memories in the file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Peers = Annotated[
    str | None,
    typer.Option(help="Names of the peers, separated by commas; makes a new memory.", show_default=False),
]
EncoderName = Annotated[
    str | None, typer.Option("--encoder", help="For a new memory: static (default), hashed or sentence.")
]
Gamma = Annotated[
    float | None,
    typer.Option(help="For a new memory: what is left of evidence after one event (default 0.9995)."),
]
After = Annotated[
    str | None, typer.Option(help="Id of an earlier decision on the same task: both are one event.")
]


def existing(path: Path) -> Path:
    """The path of a file that is there."""
    if not path.is_file():
        raise InputError(f"got --memory {path}, where there is no file; expected an existing memory")
    return path


def open_to_decide(
    path: Path, namespace: str, peers: str | None, encoder: str | None, gamma: float | None
) -> SigmaMem:
    """Open a memory for decisions; with peers, make it where there is none."""
    if not path.exists():
        if peers is None:
            raise InputError(
                f"got --memory {path}, where there is no file; give --peers a,b,c to make a new memory"
            )
        if not path.absolute().parent.is_dir():
            raise InputError(f"got --memory {path}, in a folder that does not exist; make the folder first")
    return SigmaMem(
        None if peers is None else [name.strip() for name in peers.split(",")],
        path,
        encoder=encoder,
        settings=None if gamma is None else Settings(gamma=gamma),
        namespace=namespace,
    )


def text_of(question: str) -> str:
    """The question, or standard input where it is "-"."""
    if question != "-":
        return question
    text = typer.get_text_stream("stdin").read().strip()
    if not text:
        raise InputError("got '-' and nothing on standard input; expected the question there")
    return text


def named_values(pairs: Sequence[str], what: str) -> dict[str, str]:
    """``peer=value`` arguments as a mapping, in order.

    >>> named_values(["a=391", "b=x=1"], "answer")
    {'a': '391', 'b': 'x=1'}
    """
    values: dict[str, str] = {}
    for pair in pairs:
        peer, sign, value = pair.partition("=")
        if not sign or not peer:
            raise InputError(f"got {what} {pair!r}; expected peer=value")
        if peer in values:
            raise InputError(f"got two values of {what} for peer {peer!r}; expected one")
        values[peer] = value
    return values
