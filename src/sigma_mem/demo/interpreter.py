"""What the agents compute with: a small, safe interpreter for a part of Python, and arithmetic in text.

The interpreter walks the syntax tree. No import, no attribute of an object but a few methods of text and
lists, no files, a bound on steps and on the size of numbers and texts: a program can only print.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class Unsupported(Exception):
    """The program uses something that the interpreter does not know, or too much of it."""


_LARGEST = 10_000  # characters and elements of a value
_WIDTH = re.compile(r"%[^%a-zA-Z]*(?:\*|[0-9]{3})")  # a format that makes a long text of a short one


def _bounded(value: Any) -> Any:
    """The value, unless it holds too much; an element that occurs twice counts twice."""
    left, rest = _LARGEST, [value]
    while rest:
        part = rest.pop()
        left -= len(part) if isinstance(part, str) else 1
        if left < 0:
            raise Unsupported("too long a text or list")
        if isinstance(part, list):
            rest.extend(part[: left + 1])
    return value


def _range(*ends: int) -> range:
    numbers = range(*ends)
    if len(numbers) > 10**6:
        raise Unsupported("too long a range")
    return numbers


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len, "sum": sum, "min": min, "max": max, "abs": abs, "sorted": sorted, "range": _range, "str": str,
}  # fmt: skip
_ERRORS = (SyntaxError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError)
_METHODS = frozenset({"upper", "lower", "replace", "count", "append"})


class _Return(Exception):
    def __init__(self, value: object) -> None:
        self.value = value


class Interpreter:
    """Runs one program; what it printed so far is in ``printed`` even if it had to give up.

    It gives up after ``max_steps`` statements and expressions; ``functions`` says whether the program
    may define some.
    """

    def __init__(self, max_steps: int = 20_000, functions: bool = True) -> None:
        self.printed: list[str] = []
        self._steps_left = max_steps
        self._functions = functions
        self._defined: dict[str, ast.FunctionDef] = {}

    def run(self, program: str) -> None:
        """Run a program, or raise Unsupported."""
        try:
            self._block(ast.parse(program).body, {})
        except (*_ERRORS, _Return) as error:
            raise Unsupported(str(error)) from error

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise Unsupported("too many steps")

    def _block(self, body: list[ast.stmt], names: dict[str, Any]) -> None:
        for statement in body:
            self._step()
            self._statement(statement, names)

    def _statement(self, node: ast.stmt, names: dict[str, Any]) -> None:
        match node:
            case ast.Expr(value=value):
                self._value(value, names)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = self._value(value, names)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                names[name] = self._binary(op, names[name], self._value(value, names))
            case ast.If(test=test, body=body, orelse=orelse):
                self._block(body if self._value(test, names) else orelse, names)
            case ast.While(test=test, body=body):
                while self._value(test, names):
                    self._block(body, names)
            case ast.For(target=ast.Name(id=name), iter=items, body=body):
                for item in self._value(items, names):
                    names[name] = item
                    self._block(body, names)
            case ast.FunctionDef() if self._functions:
                self._defined[node.name] = node
            case ast.Return(value=ast.expr() as value):
                raise _Return(self._value(value, names))
            case _:
                raise Unsupported(type(node).__name__)

    def _value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        self._step()
        match node:
            case ast.Constant(value=int() | str() | float() as value):
                return value
            case ast.Name(id=name):
                return names[name]
            case ast.List(elts=elements):
                return _bounded([self._value(e, names) for e in elements])
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._value(left, names), self._value(right, names))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand, names)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._value(left, names), self._value(right, names))
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                ends = [None if part is None else self._value(part, names) for part in (lower, upper, step)]
                return self._value(value, names)[slice(*ends)]
            case ast.Subscript(value=value, slice=index):
                return self._value(value, names)[self._value(index, names)]
            case ast.Call(func=func, args=args, keywords=[]):
                return self._call(func, [self._value(a, names) for a in args], names)
        raise Unsupported(type(node).__name__)

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if type(op) not in _OPERATORS:
            raise Unsupported(type(op).__name__)
        if isinstance(op, ast.Mult) and isinstance(left, str | list) | isinstance(right, str | list):
            raise Unsupported("a repeated text or list")
        if isinstance(op, ast.Mod) and isinstance(left, str) and _WIDTH.search(left):
            raise Unsupported("a format with a width")
        value = _OPERATORS[type(op)](left, right)
        if isinstance(value, int) and abs(value) > 10**60:
            raise Unsupported("too large a number")
        return _bounded(value)

    def _call(self, func: ast.expr, args: list[Any], names: dict[str, Any]) -> Any:
        match func:
            case ast.Name(id="print"):
                self.printed.append(" ".join(str(a) for a in args))
                return None
            case ast.Name(id=name) if name in self._defined:
                function = self._defined[name]
                own_names = dict(zip((a.arg for a in function.args.args), args, strict=True))
                try:
                    self._block(function.body, own_names)
                except _Return as returned:
                    return returned.value
                return None
            case ast.Name(id=name) if name in _FUNCTIONS:
                return _bounded(_FUNCTIONS[name](*args))
            case ast.Attribute(value=value, attr=method) if method in _METHODS:
                return self._method(self._value(value, names), method, args)
        raise Unsupported("a call")

    def _method(self, owner: Any, method: str, args: list[Any]) -> Any:
        texts = [owner, *args]
        longest = [len(text) + 1 for text in texts if isinstance(text, str)]
        if method == "replace" and math.prod(longest[:1] + longest[2:3]) > 100 * _LARGEST:
            raise Unsupported("too long a text or list")
        result = _bounded(getattr(owner, method)(*args))
        _bounded(owner)
        return result


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
    """The value of an infix expression, or None where it is not one.

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
