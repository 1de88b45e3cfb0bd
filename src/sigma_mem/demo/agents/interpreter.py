"""A small, safe interpreter for a part of Python: it walks the syntax tree.

No import, no attribute of an object but a few methods of text and lists, no files, a
bound on steps and on the size of numbers and texts: a program can only print.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["Interpreter", "Unsupported"]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LARGEST = 10**6


class Unsupported(Exception):
    """The program uses something that the interpreter does not know, or too much of it."""


def _range(*ends: int) -> range:
    numbers = range(*ends)
    if len(numbers) > _LARGEST:
        raise Unsupported("too long a range")
    return numbers


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len, "sum": sum, "min": min, "max": max, "abs": abs, "sorted": sorted, "range": _range, "str": str,
}  # fmt: skip
_METHODS = frozenset({"upper", "lower", "replace", "count", "append"})


class _Return(Exception):
    def __init__(self, value: object) -> None:
        self.value = value


class Interpreter:
    r"""Runs one program; what it printed so far is in ``printed`` even if it had to give up.

    Parameters
    ----------
    max_steps : int
        Statements and expressions to visit before giving up.
    functions : bool
        Whether the program may define functions.

    Examples
    --------
    >>> run = Interpreter()
    >>> run.run("n = 3\nwhile n > 1:\n    n = n - 1\nprint(n, 'left')")
    >>> run.printed
    ['1 left']
    """

    def __init__(self, max_steps: int = 20_000, functions: bool = True) -> None:
        self.printed: list[str] = []
        self._steps_left = max_steps
        self._functions = functions
        self._defined: dict[str, ast.FunctionDef] = {}
        self._depth = 0

    def run(self, program: str) -> None:
        """Run a program, or raise Unsupported."""
        try:
            self._block(ast.parse(program).body, {})
        except (SyntaxError, TypeError, ValueError, ArithmeticError, LookupError, _Return) as error:
            raise Unsupported(str(error)) from error

    def _step(self, node: ast.AST) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise Unsupported(f"too many steps at line {getattr(node, 'lineno', '?')}")

    def _block(self, body: list[ast.stmt], names: dict[str, Any]) -> None:
        for statement in body:
            self._step(statement)
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
        self._step(node)
        match node:
            case ast.Constant(value=int() | str() | float() as value):
                return value
            case ast.Name(id=name):
                return names[name]
            case ast.List(elts=elements):
                return [self._value(e, names) for e in elements]
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._value(left, names), self._value(right, names))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand, names)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](self._value(left, names), self._value(right, names))
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                ends = [None if part is None else self._value(part, names) for part in (lower, upper, step)]
                return self._value(value, names)[slice(*ends)]
            case ast.Subscript(value=value, slice=index):
                return self._value(value, names)[self._value(index, names)]
            case ast.Call(func=func, args=args, keywords=[]):
                return self._call(func, [self._value(a, names) for a in args], names)
        raise Unsupported(type(node).__name__)

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if type(op) not in _BINARY:
            raise Unsupported(type(op).__name__)
        if isinstance(op, ast.Mult) and isinstance(left, str | list) | isinstance(right, str | list):
            raise Unsupported("a repeated text or list")
        value = _BINARY[type(op)](left, right)
        if isinstance(value, int) and abs(value) > 10**60:
            raise Unsupported("too large a number")
        return value

    def _call(self, func: ast.expr, args: list[Any], names: dict[str, Any]) -> Any:
        match func:
            case ast.Name(id="print"):
                self.printed.append(" ".join(str(a) for a in args))
                return None
            case ast.Name(id=name) if name in self._defined:
                return self._call_defined(self._defined[name], args)
            case ast.Name(id=name) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*args)
            case ast.Attribute(value=value, attr=method) if method in _METHODS:
                return getattr(self._value(value, names), method)(*args)
        raise Unsupported("a call")

    def _call_defined(self, function: ast.FunctionDef, args: list[Any]) -> Any:
        if self._depth > 50:
            raise Unsupported("too deep a recursion")
        self._depth += 1
        try:
            self._block(function.body, dict(zip((a.arg for a in function.args.args), args, strict=True)))
        except _Return as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None
