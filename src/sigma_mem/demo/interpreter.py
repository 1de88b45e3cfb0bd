"""What the agents compute with: a part of Python, and arithmetic in text.

Python itself runs the programs. They come from `tasks`; this is not a sandbox for other programs.
"""

import ast
import operator
import re
import sys
from collections.abc import Mapping
from fractions import Fraction
from types import FrameType
from typing import Any

_KNOWN = (
    ast.Module, ast.Expr, ast.Assign, ast.AugAssign, ast.If, ast.While, ast.For, ast.FunctionDef,
    ast.arguments, ast.arg, ast.Return, ast.Constant, ast.Name, ast.expr_context, ast.List, ast.BinOp,
    ast.operator, ast.UnaryOp, ast.USub, ast.Compare, ast.cmpop, ast.Subscript, ast.Slice, ast.Call,
    ast.Attribute,
)  # fmt: skip
_FUNCTIONS = {"len": len, "sum": sum, "min": min, "max": max, "range": range, "str": str}
_METHODS = frozenset({"upper", "lower", "replace", "count", "append"})
_FAILURES = (SyntaxError, TypeError, ValueError, ArithmeticError, LookupError, NameError, RecursionError)
_LARGEST = 100_000  # bytes of a value


class Unsupported(Exception):
    """The program uses something that its reader does not know, or too much of it."""


def run_program(program: str, lines: int = 5000, functions: bool = True) -> list[str]:
    r"""What a program prints; Unsupported if it fails, or takes more lines than this.

    Of Python only a part is known, without dictionaries, imports and attributes but a few methods of texts
    and lists; ``functions`` is whether the program may define some.

    >>> run_program("total = 1\nfor i in range(4):\n    total += i\nprint(total)")
    ['7']
    """
    printed: list[str] = []
    left = lines

    def count(frame: FrameType, event: str, value: object) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0 or any(sys.getsizeof(each) > _LARGEST for each in frame.f_locals.values()):
            raise Unsupported("too many lines, or too large a value")
        return count

    known = {**_FUNCTIONS, "print": lambda *said: printed.append(" ".join(map(str, said)))}
    before = sys.gettrace()
    try:
        tree = ast.parse(program)
        for node in ast.walk(tree):
            hidden = isinstance(node, ast.Attribute) and node.attr not in _METHODS
            defines = isinstance(node, ast.FunctionDef) and not functions
            if hidden or defines or not isinstance(node, _KNOWN):
                raise Unsupported(type(node).__name__)
        code = compile(tree, "program", "exec")
        sys.settrace(count)
        exec(code, {"__builtins__": known})
    except _FAILURES as error:
        raise Unsupported(str(error)) from error
    finally:
        sys.settrace(before)
    return printed


# --- arithmetic in a text, by precedence climbing ---

_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_LEFT_TO_RIGHT = dict.fromkeys(_PRECEDENCE, 1)  # every operator binds alike
_WORDS = {
    "plus": "+", "added to": "+", "minus": "-", "less": "-",
    "times": "*", "multiplied by": "*", "divided by": "/",
}  # fmt: skip
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[-+*/()]|\S")


def expressions(text: str) -> list[list[str]]:
    """Runs of numbers, operators and brackets in a text, longest first.

    >>> expressions("What is 3 plus 4 * 5, or 7?")
    [['3', '+', '4', '*', '5'], ['7']]
    """
    for word, symbol in _WORDS.items():
        text = re.sub(rf"\b{word}\b", symbol, text)
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token[0].isdigit() or token in "+-*/()":
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    with_number = [run for run in runs if any(t[0].isdigit() for t in run)]
    return sorted(with_number, key=len, reverse=True)


def evaluate(tokens: list[str], left_to_right: bool = False) -> Fraction | None:
    """The value of an infix expression, or None if it is not one.

    >>> evaluate("2 + 3 * 4".split()), evaluate("2 + 3 * 4".split(), left_to_right=True)
    (Fraction(14, 1), Fraction(20, 1))
    """
    rest = tokens[::-1]
    try:
        value = _climb(rest, _LEFT_TO_RIGHT if left_to_right else _PRECEDENCE, 1)
    except (ValueError, LookupError, ArithmeticError):  # no number, nothing left, a division by zero
        return None
    return None if rest else value


def _climb(rest: list[str], precedence: Mapping[str, int], level: int) -> Fraction:
    value = _atom(rest, precedence)
    while rest and precedence.get(rest[-1], 0) >= level:
        op = rest.pop()
        value = _OPERATIONS[op](value, _climb(rest, precedence, precedence[op] + 1))
    return value


def _atom(rest: list[str], precedence: Mapping[str, int]) -> Fraction:
    token = rest.pop()
    if token == "-":
        return -_atom(rest, precedence)
    if token != "(":
        return Fraction(token)
    value = _climb(rest, precedence, 1)
    if rest.pop() != ")":
        raise ValueError("a bracket is not closed")
    return value


def spell(value: Fraction) -> str:
    """A whole number as such, anything else with two decimals."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.2f}"
