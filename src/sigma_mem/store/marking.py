"""The shape and the values of a body, straight from its Python values, without JSON's text in between.

Every decision is a line to pack; to write its JSON only to take it apart again took four times as long.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import copysign, nan
from typing import Any, NamedTuple

from sigma_mem.store.numbers import LONGEST_DECIMAL, LONGEST_INTEGER, UNITS, coded_decimal, coded_integer

_DOUBLE, _NUMBER, _INTEGER, _AGAIN, _TEXT = "\x01", "\x02", "\x03", "\x04", "\x06"
_quoted = json.encoder.encode_basestring_ascii
Coded = Callable[[bytes, bytearray, bytearray], bytes]


class Marked(NamedTuple):
    """A body's JSON with marks in the places of values, and the values: see `shapes`."""

    shape: bytes
    doubles: list[float]
    codes: bytearray
    long: bytearray


@lru_cache(maxsize=4096)
def _key(key: str) -> str:
    if type(key) is not str:
        raise TypeError(f"got the key {key!r}; expected text")
    return _quoted(key) + ":"


@lru_cache(maxsize=1 << 15)
def _decimal(value: float) -> bytes | None:
    """The code of a number of at most four decimals, which is not zero; None for any other."""
    if -1e12 < value < 1e12:
        units = round(value * UNITS)
        short = units / UNITS == value and len(repr(value)) <= LONGEST_DECIMAL
        return coded_decimal(units) if short else None
    if value - value != 0.0:
        raise ValueError(f"got {value}, which JSON does not have")
    return None


def _zero(value: float) -> bytes | None:
    return coded_decimal(0) if copysign(1.0, value) > 0.0 else None


def inner_text(text: str) -> bytes:
    """What JSON has between the quotes of a string."""
    return _quoted(text)[1:-1].encode()


def marked(body: Mapping[str, Any], words: Mapping[str, bytes], code_text: Coded) -> Marked:
    """The shape and the values of a body.

    Raises TypeError for values that are not of JSON's own types, and ValueError for NaN and infinity.

    Parameters
    ----------
    words : mapping
        Codes of strings that have a number.
    code_text : callable
        Codes any other string, as JSON has it between the quotes; returns its mark.
    """
    parts: list[str] = []
    doubles: list[float] = []
    codes, long = bytearray(), bytearray()
    put, code, last = parts.append, codes.extend, nan

    def add(value: Any, add: Callable[[Any, Any], None]) -> None:
        # It gets itself: a closure over its own name would leave every line to the garbage collector.
        nonlocal last
        kind = type(value)
        if kind is float:
            decimal = _decimal(value) if value else _zero(value)
            if decimal is not None:
                code(decimal)
                put(_NUMBER)
            elif value == last:
                put(_AGAIN)
            else:
                last = value
                doubles.append(value)
                put(_DOUBLE)
        elif kind is str:
            word = words.get(value)
            if word is None:
                put(code_text(inner_text(value), codes, long).decode())
            else:
                code(word)
                put(_TEXT)
        elif kind is dict:
            before = "{"
            for key, item in value.items():
                put(before + _key(key))
                before = ","
                add(item, add)
            put("}" if value else "{}")
        elif kind is list or kind is tuple:
            before = "["
            for item in value:
                put(before)
                before = ","
                add(item, add)
            put("]" if value else "[]")
        elif value is None:
            put("null")
        elif kind is bool:
            put("true" if value else "false")
        elif kind is int:
            text = str(value)
            if len(text) <= LONGEST_INTEGER:
                code(coded_integer(value))
                put(_INTEGER)
            else:
                put(text)
        else:
            raise TypeError(f"got a value of type {kind.__name__}")

    add(dict(body), add)
    return Marked("".join(parts).encode(), doubles, codes, long)
