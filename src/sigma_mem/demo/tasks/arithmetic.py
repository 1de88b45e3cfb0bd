"""Arithmetic questions: in symbols, in words, and remainders.

The true value is computed on the expression tree while it is drawn. The agents only
ever see its text, so an error of theirs in precedence cannot leak into the truth.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["arithmetic"]

_RANK = {"+": 1, "-": 1, "*": 2}
_SPOKEN = {"+": ("plus", "added to"), "-": ("minus", "less"), "*": ("times", "multiplied by")}
_ASK = (
    "Calculate the value of this arithmetic expression: {}",
    "Evaluate the expression {} and give its value.",
    "What is the result of the calculation {}?",
)


@dataclass(frozen=True, slots=True)
class _Node:
    """An integer, or an operation on two nodes, with its value."""

    value: int
    op: str = ""
    left: _Node | None = None
    right: _Node | None = None


def _leaf(rng: random.Random) -> _Node:
    return _Node(rng.randint(2, 30))


def _join(op: str, left: _Node, right: _Node) -> _Node:
    a, b = left.value, right.value
    value = a + b if op == "+" else a - b if op == "-" else a * b
    return _Node(value, op, left, right)


def _tree(rng: random.Random, operations: int) -> _Node:
    if operations == 0:
        return _leaf(rng)
    on_left = rng.randint(0, operations - 1)
    left, right = _tree(rng, on_left), _tree(rng, operations - 1 - on_left)
    return _join(rng.choice("++-**"), left, right)


def _sum(rng: random.Random) -> _Node:
    """A sum that ends in a product: where it matters in which order one works."""
    left = _leaf(rng) if rng.random() < 0.6 else _tree(rng, 1)
    return _join(rng.choice("+-"), left, _join("*", _leaf(rng), _leaf(rng)))


def _text(node: _Node, spoken: random.Random | None = None) -> str:
    """Infix with the brackets that are needed, operators as symbols or as words."""
    if node.left is None or node.right is None:
        return str(node.value)
    sides = []
    for side, child in (("left", node.left), ("right", node.right)):
        text = _text(child, spoken)
        looser = child.op and _RANK[child.op] < _RANK[node.op]
        level = child.op and _RANK[child.op] == _RANK[node.op] and side == "right"
        sides.append(f"({text})" if looser or level else text)
    op = spoken.choice(_SPOKEN[node.op]) if spoken else node.op
    return f"{sides[0]} {op} {sides[1]}"


def _remainder(rng: random.Random) -> tuple[str, str]:
    divisor = rng.randint(3, 19)
    quotient, rest = rng.randint(4, 40), rng.randrange(divisor)
    number = quotient * divisor + rest
    ask = rng.choice(
        (
            "What remainder is left when {} is divided by {}?",
            "Divide with remainder: what remains of {} divided by {}?",
        )
    )
    return ask.format(number, divisor), str(rest)


def arithmetic(rng: random.Random) -> tuple[str, str]:
    """Draw a question and its true answer.

    >>> arithmetic(random.Random(1))
    ('Evaluate the expression 17 times 26 times 17 and give its value.', '7514')
    """
    kind = rng.random()
    if kind < 0.12:
        return _remainder(rng)
    node = _sum(rng) if rng.random() < 0.7 else _tree(rng, rng.choice((2, 3)))
    text = _text(node, rng if kind < 0.42 else None)
    return rng.choice(_ASK).format(text), str(node.value)
