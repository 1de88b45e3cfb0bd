"""The process behind `sigma_lab.collect.math_answers.MathWorker`.

For an answer per line it writes its canon, for a pair of a right answer and another whether they are equal.

It runs as ``python -m sigma_lab.collect.simplify SECONDS``.
"""

import json
import resource
import signal
import sys
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from typing import Any

from sigma_mem.answers.forms import write_fraction

_MEMORY = 2 << 30  # bytes of address space
# what sympy and the LaTeX parser raise on nonsense; anything else ends this process, and a new one is started
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def canonical(answer: str) -> str | None:
    """Parse LaTeX or plain mathematics and return one form for all equal answers, or None."""
    parsed = _parse(answer)
    return _form(parsed[0]) if parsed else None


def equal(right: str, answer: str) -> bool:
    """Whether math-verify finds both equal."""
    from math_verify import verify

    first, second = _parse(right), _parse(answer)
    return bool(first and second and verify(first, second, timeout_seconds=None))


def _parse(answer: str) -> list[Any]:
    from math_verify import LatexExtractionConfig, parse

    parsed: list[Any] = parse(
        f"${answer}$",
        extraction_config=[LatexExtractionConfig()],
        fallback_mode="no_fallback",
        parsing_timeout=None,  # this process ends by itself
    )
    return parsed


def _form(value: Any) -> str:
    sympy: Any = import_module("sympy")
    if isinstance(value, sympy.Expr):
        return _expression(sympy, value)
    if isinstance(value, sympy.FiniteSet):
        return f"{{{','.join(sorted(map(_form, value.args)))}}}"
    if isinstance(value, sympy.Tuple | tuple | list):
        return f"({','.join(map(_form, value))})"
    if isinstance(value, sympy.Eq):
        stated = value.lhs.is_Symbol or not value.lhs.free_symbols  # x = 5, or 64 + 48 = 112
        return _form(value.rhs) if stated else f"{_form(value.lhs)}={_form(value.rhs)}"
    return "".join(str(value).split())


def _expression(sympy: Any, value: Any) -> str:
    exact = sympy.nsimplify(value, rational=True) if value.atoms(sympy.Float) else value
    simple = sympy.expand(sympy.simplify(exact))
    if not simple.free_symbols:
        simple = sympy.radsimp(simple)
    if isinstance(simple, sympy.Rational):
        return write_fraction(Fraction(int(simple.p), int(simple.q)))
    return "".join(str(simple).split())


def main(seconds: int) -> None:
    """Answer every line of standard input until it ends, or an answer takes more processor time than this."""
    with suppress(ValueError, OSError):  # let 9^{9^{9^9}} fail instead of filling the machine
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not a canon
    canonical("x + x")  # loads the parser before the clock runs
    # The system ends this process. The signal is not handled in Python, so that it works inside a long power.
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            request = json.loads(line)
            reply = equal(*request) if isinstance(request, list) else canonical(request)
        except _UNREADABLE:
            reply = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
