"""Numbers: 1,234.50 and $1234.5 are the same answer."""

import re
from decimal import Context, Decimal
from fractions import Fraction

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?<![\d.])(?P<sign>(?<![\w)}}\]])[-−]|)[$€£]?(?P<minus>[-−]?)(?P<number>{_DIGITS})"
    r"(?:[eE](?P<exponent>[+-]?\d{1,4})(?!\w))?(?:\s?/\s?(?P<over>[1-9]\d*)(?![\d.]))?"
)
_WHOLE_NUMBER = re.compile(_NUMBER.pattern + r"\s?\\?%?\.?$")
_SPACING = re.compile(r"\{,\}|\\[,!]|(?<=\d)[  ](?=\d{3})|\\(?=[$%])")
_FLOAT = Context(prec=12)  # so that 106.09000000000001, a float's noise, is 106.09
_EXACT = Context(prec=1000)
_MOST_DIGITS = 400  # longer numbers are not read


def number_in(text: str, last: bool) -> str | None:
    """The first or the last number of a text."""
    found = list(_NUMBER.finditer(_SPACING.sub("", text)))
    return _write_number(found[-1 if last else 0]) if found else None


def whole_number(text: str) -> str | None:
    """The canonical number if the whole text is one, with at most $ or % beside it."""
    if text.isdecimal() and text.isascii() and text[0] != "0":
        return text if len(text) <= _MOST_DIGITS else None
    found = _WHOLE_NUMBER.match(text)
    return _write_number(found) if found else None


def _write_number(found: re.Match[str]) -> str | None:
    digits, exponent, over = found["number"].replace(",", ""), int(found["exponent"] or 0), found["over"]
    if len(digits) + abs(exponent) + len(over or "") > _MOST_DIGITS:
        return None
    value = (Decimal(digits) if "." not in digits else _FLOAT.create_decimal(digits)).scaleb(exponent, _EXACT)
    negative = bool(found["sign"] or found["minus"]) and value != 0
    written = _write_decimal(value) if over is None else write_fraction(Fraction(value) / int(over))
    return f"-{written}" if negative else written


def _write_decimal(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def write_fraction(value: Fraction) -> str:
    """Write a fraction: as a decimal where that ends, else in lowest terms."""
    if 10 ** value.denominator.bit_length() % value.denominator:  # another prime than 2 or 5
        return str(value)
    return _write_decimal(_EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)))
