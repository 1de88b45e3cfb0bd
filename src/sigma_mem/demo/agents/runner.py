"""Runs the Python that it finds in a question."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from .interpreter import Interpreter, Unsupported

__all__ = ["Runner", "program_of"]

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_SPOKEN = {"plus": "+", "minus": "-", "times": "*"}


def program_of(question: str) -> str | None:
    """The program of a question's code block, if it has one."""
    block = _BLOCK.search(question)
    return block[1] if block else None


def _run(program: str) -> str:
    """The last line printed, "" if the program fails before it prints."""
    interpreter = Interpreter()
    with contextlib.suppress(Unsupported):
        interpreter.run(program)
    return interpreter.printed[-1] if interpreter.printed else ""


@dataclass(frozen=True, slots=True)
class Runner:
    r"""Runs a program with its own interpreter, which knows no dictionaries.

    Without a program it tries the question's figures as a Python expression; of words it
    knows plus, minus and times. Where nothing was printed it has no answer.

    >>> Runner().answer("What does this Python program print?\n```python\nprint(2 + 3 * 4)\n```")
    '14'
    >>> Runner().answer("Compute 2 plus 3 times 4.")
    '14'
    """

    def answer(self, question: str) -> str:
        """What the program prints, or an attempt at the question as an expression."""
        program = program_of(question)
        if program is None:
            program = f"print({self._expression(question)})"
        return _run(program)

    def _expression(self, question: str) -> str:
        text = " ".join(_SPOKEN.get(word, word) for word in question.split())
        span = re.search(r"[\d(].*[\d)]", text)  # from the first figure to the last
        return span[0] if span else text
