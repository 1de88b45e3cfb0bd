"""Values: ``[1,2]`` and ``[1, 2]`` are the same Python literal, two orders of keys the same JSON."""

import ast
import json
import re
import threading
import warnings
from contextlib import suppress
from typing import Any

from sigma_mem.answers.program import STRING
from sigma_mem.answers.stated import fenced_blocks

_WARNS = re.compile(r"\\|\d[A-Za-z_]")  # the parser may warn of "\d" and of 1if
_STRINGS = re.compile(STRING, re.DOTALL)
_F_STRING = re.compile(r"[fF][rR]?['\"]|[rR][fF]['\"]")
_QUIET = threading.Lock()  # the filters of warnings belong to the whole process
_LONGEST = 20_000  # characters of Python that are parsed
_JSON = json.JSONDecoder(strict=False)
# What the parsers raise; ValueError also for an integer of more digits than Python converts.
_UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


def parse_literal(text: str) -> str | None:
    """Return the canonical form if the whole text is a Python literal, else None.

    >>> parse_literal("[1,2, 'a']"), parse_literal("'abc'"), parse_literal("abc")
    ("[1, 2, 'a']", 'abc', None)
    """
    try:
        value = _evaluate(text)
        return value if isinstance(value, str) else _write(value)
    except _UNREADABLE:
        return None


def parse_value(text: str) -> str | None:
    """Return the canonical form of JSON or of a Python literal; None where Python's parser may warn.

    >>> parse_value('{"b": [1.0], "a": true}') == parse_value("{'a': True, 'b': [1]}")
    True
    """
    try:
        try:
            value = _JSON.decode(text)
        except (ValueError, RecursionError):
            if _WARNS.search(text):
                return None
            value = _evaluate(text)
        with suppress(TypeError):
            value = _as_json(value)
        return _write(value)
    except _UNREADABLE:
        return None


def parse_json(text: str) -> str | None:
    """Return the JSON of a response with sorted keys, None where there is none.

    Looked for in the fenced blocks, the last one first, then in the whole text, then from the first brace or
    bracket on. A Python literal counts where JSON can hold its value.

    >>> parse_json('Here it is: {"b": 1.0, "a": [true]}.'), parse_json("{'a': None}")
    ('{"a": [true], "b": 1}', '{"a": null}')
    """
    for part in (*reversed(fenced_blocks(text)), text):
        if (form := _json_form(part.strip())) is not None:
            return form
    for start in sorted(place for bracket in "{[" if (place := text.find(bracket)) >= 0):
        if (form := _json_form(text[start:], whole=False)) is not None:
            return form
    return None


def _json_form(text: str, whole: bool = True) -> str | None:
    try:
        try:
            value = _JSON.decode(text) if whole else _JSON.raw_decode(text)[0]
        except ValueError:
            value = _evaluate(text)
        return json.dumps(_as_json(value), ensure_ascii=False)
    except _UNREADABLE:
        return None


def _as_json(value: Any) -> Any:
    """Sort keys, write 1.0 as 1 and read the JSON in strings, as arguments of calls are written.

    TypeError where JSON cannot hold the value.
    """
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _as_json(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_as_json(part) for part in value]
    if isinstance(value, str) and value[:1] in ("{", "[") and value[-1] in "}]":
        with suppress(ValueError):
            return _as_json(_JSON.decode(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str | int | float | None):
        return value
    raise TypeError(f"JSON has no {type(value).__name__}")


def _evaluate(text: str) -> Any:
    if len(text) > _LONGEST:
        raise ValueError("too long to be parsed")
    # The parser normalises names in time quadratic in their length; a literal has none but True, False, None.
    if not text.isascii() and (_F_STRING.search(text) or not _STRINGS.sub("", text).isascii()):
        raise ValueError("a name, which no literal holds")
    if _WARNS.search(text) is None:
        return ast.literal_eval(text)
    with _QUIET, warnings.catch_warnings(action="ignore"):
        return ast.literal_eval(text)


def _write(value: object) -> str:
    """Write a value like repr, with sets in a fixed order."""
    if isinstance(value, list):
        return f"[{', '.join(map(_write, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_write, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_write(k)}: {_write(v)}' for k, v in value.items())}}}"
    if isinstance(value, set):
        return f"{{{', '.join(sorted(map(_write, value)))}}}" if value else "set()"
    return repr(value)
