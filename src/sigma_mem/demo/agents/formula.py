"""Find an arithmetic expression in a text and evaluate it by precedence climbing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

__all__ = ["LEFT_TO_RIGHT", "PRECEDENCE", "evaluate", "expressions", "spell"]

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
LEFT_TO_RIGHT = {"+": 1, "-": 1, "*": 1, "/": 1}  # the fault: every operator binds alike

_WORDS = {
    "plus": "+",
    "added to": "+",
    "minus": "-",
    "less": "-",
    "times": "*",
    "multiplied by": "*",
    "divided by": "/",
}
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[-+*/()]|\S")


def expressions(text: str, words: Mapping[str, str] = _WORDS) -> list[list[str]]:
    """Runs of numbers, operators and brackets in a text, longest first.

    >>> expressions("What is 3 plus 4 * 5, or 7?")
    [['3', '+', '4', '*', '5'], ['7']]
    """
    for word, symbol in words.items():
        text = re.sub(rf"\b{word}\b", symbol, text)
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token[0].isdigit() or token in "+-*/()":
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    with_number = [run for run in runs if any(t[0].isdigit() for t in run)]
    return sorted(with_number, key=len, reverse=True)


def evaluate(tokens: list[str], precedence: Mapping[str, int] = PRECEDENCE) -> Fraction | None:
    """The value of an infix expression, or None where it is not one.

    >>> evaluate("2 + 3 * 4".split()), evaluate("2 + 3 * 4".split(), LEFT_TO_RIGHT)
    (Fraction(14, 1), Fraction(20, 1))
    """
    rest = list(reversed(tokens))
    value = _climb(rest, precedence, 1)
    return value if not rest else None


def _climb(rest: list[str], precedence: Mapping[str, int], level: int) -> Fraction | None:
    value = _atom(rest, precedence)
    while value is not None and rest and precedence.get(rest[-1], 0) >= level:
        op = rest.pop()
        right = _climb(rest, precedence, precedence[op] + 1)
        value = _apply(op, value, right)
    return value


def _atom(rest: list[str], precedence: Mapping[str, int]) -> Fraction | None:
    if not rest:
        return None
    token = rest.pop()
    if token == "-":
        inner = _atom(rest, precedence)
        return None if inner is None else -inner
    if token == "(":
        inner = _climb(rest, precedence, 1)
        return inner if rest and rest.pop() == ")" else None
    return Fraction(token) if token[0].isdigit() else None


def _apply(op: str, left: Fraction, right: Fraction | None) -> Fraction | None:
    if right is None or (op == "/" and right == 0):
        return None
    if op in "+-":
        return left + right if op == "+" else left - right
    return left * right if op == "*" else left / right


def spell(value: Fraction) -> str:
    """A whole number as such, anything else with two decimals.

    >>> spell(Fraction(14)), spell(Fraction(100, 7))
    ('14', '14.29')
    """
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.2f}"
