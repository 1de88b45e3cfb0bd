"""Evaluates the arithmetic it finds in a text; can read neither programs nor passages."""

from __future__ import annotations

from dataclasses import dataclass

from .formula import LEFT_TO_RIGHT, PRECEDENCE, evaluate, expressions, spell

__all__ = ["Calculator"]


@dataclass(frozen=True, slots=True)
class Calculator:
    """Takes the longest arithmetic expression of the text, symbols or words.

    Version 2 has a real fault: it forgot that a product binds before a sum.

    >>> Calculator().answer("Compute 2 plus 3 times 4."), Calculator(version=2).answer("What is 2 + 3 * 4?")
    ('14', '20')
    """

    version: int = 1

    def answer(self, question: str) -> str:
        """The value of the longest expression that is one; "" without any number."""
        precedence = PRECEDENCE if self.version == 1 else LEFT_TO_RIGHT
        for tokens in expressions(question):
            value = evaluate(tokens, precedence)
            if value is not None:
                return spell(value)
        return ""
