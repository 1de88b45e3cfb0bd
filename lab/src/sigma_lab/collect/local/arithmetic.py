"""Arithmetic that is exact and bounded, and a little algebra on LaTeX."""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

from sigma_mem.answers.latex import has_words, simplify_math
from sigma_mem.answers.number import write_fraction

Number = Fraction | bool
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_LARGEST = 10**60
_LONGEST = 2000


def evaluated(expression: str, x: Fraction | None = None) -> Number | None:
    """The value of an expression of figures, of True and False, or of ``x``; None where it has none.

    >>> evaluated("(2 + 3) * 4 / 3"), evaluated("not (True and False)"), evaluated("1 / 0")
    (Fraction(20, 3), True, None)
    """
    if len(expression) > _LONGEST:
        return None
    try:
        return _value(ast.parse(" ".join(expression.split()), mode="eval").body, x)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def write_number(value: Number) -> str:
    """The number as people write it.

    >>> write_number(Fraction(5)), write_number(Fraction(1, 3))
    ('5', '1/3')
    """
    return write_fraction(Fraction(value))


def algebra(prompt: str) -> str | None:
    """The first formula of a prompt, simplified; solved, where it is an equation in one unknown."""
    for formula in re.findall(r"\\\[(.+?)\\\]|\$\$?(.+?)\$\$?|\\\((.+?)\\\)", prompt, re.DOTALL):
        text = next(part for part in formula if part)
        if len(text) > _LONGEST or has_words(text) or not re.search(r"[-+*/^=]|frac|sqrt", text):
            continue
        sides = text.split("=")
        if len(sides) == 2 and re.search(r"[Ss]olve|[Ff]ind", prompt):
            return roots(f"({sides[0]})-({sides[1]})")
        if len(sides) == 1:
            return simplify_math(text)
    return None


def roots(latex: str) -> str | None:
    """The rational zeros of a polynomial of degree one or two in one unknown.

    It is fitted to three values and checked at two more.
    """
    simple = simplify_math(latex)
    letters = set(re.findall(r"[a-zA-Z]+", simple or ""))
    if simple is None or len(letters) != 1:
        return None
    at = [evaluated(re.sub(r"[a-zA-Z]+", "x", simple), Fraction(x)) for x in (0, 1, -1, 2, 5)]
    if any(value is None or isinstance(value, bool) for value in at):
        return None
    f0, f1, f2, f3, f4 = (Fraction(value) for value in at if value is not None)
    a, b, c = (f1 + f2) / 2 - f0, (f1 - f2) / 2, f0
    if (f3, f4) != (4 * a + 2 * b + c, 25 * a + 5 * b + c) or not (a or b):
        return None
    if a == 0:
        return write_number(-c / b)
    root = _square_root(b * b - 4 * a * c)
    zeros = None if root is None else sorted({(-b - root) / (2 * a), (-b + root) / (2 * a)})
    return None if zeros is None else ", ".join(map(write_number, zeros))


def _square_root(value: Fraction) -> Fraction | None:
    if value < 0:
        return None
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    return root if root * root == value else None


def _value(node: ast.expr, x: Fraction | None) -> Number:
    match node:
        case ast.Constant(value=bool(value)):
            return value
        case ast.Constant(value=int(number) | float(number)):
            return _bounded(Fraction(str(number)))
        case ast.Name(id="x") if x is not None:
            return x
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, x)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -Fraction(_value(operand, x))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, x)
        case ast.BoolOp(op=op, values=values):
            parts = [bool(_value(value, x)) for value in values]
            return all(parts) if isinstance(op, ast.And) else any(parts)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = Fraction(_value(left, x)), Fraction(_value(right, x))
            if power.denominator != 1 or abs(power) > 64:
                raise ValueError("a power that is not small and whole")
            return _bounded(base**power.numerator)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](Fraction(_value(left, x)), Fraction(_value(right, x))))
    raise ValueError("not arithmetic")


def _bounded(value: Fraction) -> Fraction:
    if abs(value.numerator) > _LARGEST or value.denominator > _LARGEST:
        raise OverflowError("too large a number")
    return value
