"""Numbers: 1,234.50 and $1234.5 are the same answer."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from fractions import Fraction

from sigma_mem.answers.final import final_answer

__all__ = ["divided", "number", "whole_number"]

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_FIND = re.compile(
    rf"(?<![\d.])(?P<sign>(?<![\w)}}\]])[-−]|)[$€£]?(?P<minus>[-−]?)(?P<number>{_DIGITS})"
    r"(?:[eE](?P<exponent>[+-]?\d{1,4})(?!\w))?(?:\s?/\s?(?P<over>[1-9]\d*)(?![\d.]))?"
)
_WHOLE = re.compile(_FIND.pattern + r"\s?\\?%?\.?$")
_SPACING = re.compile(r"\{,\}|\\[,!]|(?<=\d)[  ](?=\d{3})|\\(?=[$%])")
_FLOAT = Context(prec=12)  # so that 106.09000000000001, a float's noise, is 106.09
_EXACT = Context(prec=1000)
_LONGEST = 400  # digits; longer ones are kept out rather than written out


def number(text: str) -> str | None:
    """Return the number a response gives, or None.

    The first number of the stated answer; where none is stated, the last number of the text.

    Examples
    --------
    >>> number("She pays $1,234.50 in all."), number("The answer is 84 grains."), number("none")
    ('1234.5', '84', None)
    """
    stated = final_answer(text)
    if stated is not None:
        found = _FIND.search(_SPACING.sub("", stated))
        return _written(found) if found else None
    every = list(_FIND.finditer(_SPACING.sub("", text)))
    return _written(every[-1]) if every else None


def whole_number(text: str) -> str | None:
    """Return the canonical number if the whole text is one (with $ or % at most), else None."""
    if text.isdecimal() and text.isascii() and text[0] != "0":
        return text if len(text) <= _LONGEST else None
    found = _WHOLE.match(text)
    return _written(found) if found else None


def _written(found: re.Match[str]) -> str | None:
    digits, exponent, over = found["number"].replace(",", ""), int(found["exponent"] or 0), found["over"]
    if len(digits) + abs(exponent) + len(over or "") > _LONGEST:
        return None
    value = (Decimal(digits) if "." not in digits else _FLOAT.create_decimal(digits)).scaleb(exponent, _EXACT)
    negative = bool(found["sign"] or found["minus"]) and value != 0
    written = _plain(value) if over is None else divided(Fraction(value) / int(over))
    return f"-{written}" if negative else written


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def divided(value: Fraction) -> str:
    """Write a fraction: as a decimal where that ends, else in lowest terms."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return str(value)
    exact = _EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))
    return _plain(exact)
