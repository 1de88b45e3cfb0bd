"""The other side of :mod:`~sigma_mem.streams.forms.mathworker`: an answer a line in, a canon a line out."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from importlib import import_module
from typing import Any

from sigma_mem.streams.forms.number import divided

__all__ = ["canonical", "main"]

# what sympy and the LaTeX parser raise on nonsense; anything else ends this process, and a new one is started
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def canonical(answer: str) -> str | None:
    """Parse LaTeX or plain mathematics and return one form for all equal answers, or None."""
    from math_verify import LatexExtractionConfig, parse

    parsed = parse(
        f"${answer}$",
        extraction_config=[LatexExtractionConfig()],
        fallback_mode="no_fallback",
        parsing_timeout=None,  # this process is ended from outside
    )
    return _form(parsed[0]) if parsed else None


def _form(value: Any) -> str:
    sympy: Any = import_module("sympy")
    if isinstance(value, sympy.Expr):
        return _expression(value)
    if isinstance(value, sympy.FiniteSet):
        return f"{{{','.join(sorted(map(_form, value.args)))}}}"
    if isinstance(value, sympy.Tuple | tuple | list):
        return f"({','.join(map(_form, value))})"
    if isinstance(value, sympy.Eq):
        stated = value.lhs.is_Symbol or not value.lhs.free_symbols  # x = 5, or 64 + 48 = 112
        return _form(value.rhs) if stated else f"{_form(value.lhs)}={_form(value.rhs)}"
    return "".join(str(value).split())


def _expression(value: Any) -> str:
    sympy: Any = import_module("sympy")
    exact = sympy.nsimplify(value, rational=True) if value.atoms(sympy.Float) else value
    simple = sympy.simplify(exact)
    if not simple.free_symbols:
        simple = sympy.radsimp(sympy.expand(simple))
    else:
        simple = sympy.expand(simple)
    if isinstance(simple, sympy.Rational):
        return divided(Fraction(int(simple.p), int(simple.q)))
    return "".join(str(simple).split())


def main() -> None:
    """Answer every line of standard input, until it ends."""
    for line in sys.stdin:
        try:
            form = canonical(json.loads(line))
        except _UNREADABLE:
            form = None
        sys.stdout.write(json.dumps(form) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
