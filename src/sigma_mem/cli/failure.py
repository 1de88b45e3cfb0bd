"""From an error to one line and an exit code."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from sigma_mem.errors import EncoderMismatchError, InputError, SigmaMemError

__all__ = ["KNOWN", "Failure", "failure"]

# Typer has its own copy of click since 0.2x; through its public names we catch what it really raises.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

KNOWN: tuple[type[Exception], ...] = (_CommandLineError, typer.Abort, SigmaMemError, OSError)


@dataclass(frozen=True, slots=True)
class Failure:
    """What to say on stderr ("" where it was said already), and how to exit."""

    message: str
    code: int


def failure(error: Exception) -> Failure:
    r"""What one of `KNOWN` means to a caller of the command. Anything else is a bug, and keeps its trace.

    Bad input, a wrong option among it, exits with 2; what went wrong while running exits with 1.

    >>> failure(InputError("peer 'x' is unknown;\n expected one of a, b"))
    Failure(message="peer 'x' is unknown; expected one of a, b", code=2)
    """
    if isinstance(error, _CommandLineError):
        return _of_the_command_line(error)
    if isinstance(error, typer.Abort):
        return Failure("stopped", 130)
    return Failure(_one_line(str(error)), 2 if isinstance(error, (InputError, EncoderMismatchError)) else 1)


def _of_the_command_line(error: Exception) -> Failure:
    message = _one_line(error.format_message())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if message and context is not None:
        message = f"{message.rstrip('.')}; see {context.command_path} --help"
    return Failure(message, 2)


def _one_line(text: str) -> str:
    return " ".join(text.split())
