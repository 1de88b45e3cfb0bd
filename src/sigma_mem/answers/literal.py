"""Code literals: ``[1,2]`` and ``[1, 2]`` are the same value."""

import ast
import re
import warnings
from contextlib import nullcontext

_WARNS = re.compile(r"\\|\d[A-Za-z_]")  # the parser may warn of "\d" and of 1if
_LONGEST = 20_000  # characters that are parsed


def parse_literal(text: str) -> str | None:
    """Return the canonical form if the whole text is a Python literal, else None.

    >>> parse_literal("[1,2, 'a']"), parse_literal("'abc'"), parse_literal("abc")
    ("[1, 2, 'a']", 'abc', None)
    """
    if len(text) > _LONGEST:
        return None
    may_warn = _WARNS.search(text) is not None
    try:
        with warnings.catch_warnings(action="ignore") if may_warn else nullcontext():
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str) else _write(value)


def parse_simple_literal(text: str) -> str | None:
    """Like `parse_literal`, but None where the parser may warn: warnings filters are not thread-safe."""
    return None if _WARNS.search(text) else parse_literal(text)


def _write(value: object) -> str:
    """Write a literal like repr, with sets in a fixed order."""
    if isinstance(value, list):
        return f"[{', '.join(map(_write, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_write, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_write(k)}: {_write(v)}' for k, v in value.items())}}}"
    if isinstance(value, set):
        return f"{{{', '.join(sorted(map(_write, value)))}}}" if value else "set()"
    return repr(value)
