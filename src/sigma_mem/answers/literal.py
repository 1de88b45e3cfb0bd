"""Code literals: ``[1,2]`` and ``[1, 2]`` are the same value."""

from __future__ import annotations

import ast
import re
import warnings

from sigma_mem.answers.final import final_answer, unwrap

__all__ = ["literal", "quick_literal", "whole_literal"]

_WARNS = re.compile(r"\\|\d[A-Za-z_]")  # the parser may warn of "\d" and of 1if
_LONGEST = 20_000  # characters that are parsed
_PROSE = 400  # unmarked text of more characters is reasoning, not a value


def literal(text: str) -> str | None:
    """Return the Python value a response gives, written canonically; None where it gives nothing.

    A string counts as its characters, since models often leave the quotes out; text that is
    no literal stays as it is.

    Examples
    --------
    >>> literal("[1,2, 'a']"), literal("'abc'"), literal("abc")
    ("[1, 2, 'a']", 'abc', 'abc')
    """
    stated = final_answer(text)
    answer = unwrap(text if stated is None else stated, quotes=False)
    if (value := whole_literal(answer)) is not None:
        return value
    if stated is None and (not answer or len(answer) > _PROSE):
        return None
    quoted = len(answer) > 1 and answer[0] == answer[-1] and answer[0] in "'\""
    return answer[1:-1] if quoted else answer  # a string with a bare line break is no literal


def whole_literal(text: str) -> str | None:
    """Return the canonical form if the whole text is a Python literal, else None."""
    if len(text) > _LONGEST:
        return None
    try:
        value = _quiet(text) if _WARNS.search(text) else ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str) else written(value)


def quick_literal(text: str) -> str | None:
    """Like :func:`whole_literal`, without what a parser may warn of: quick, and safe between threads."""
    return None if _WARNS.search(text) else whole_literal(text)


def _quiet(text: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


def written(value: object) -> str:
    """Write a literal like repr, with sets in a fixed order."""
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(written, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{written(k)}: {written(v)}' for k, v in value.items())}}}"
    if isinstance(value, set):
        return f"{{{', '.join(sorted(map(written, value)))}}}" if value else "set()"
    return repr(value)
