"""Forms of answers that need more than a line to read: numbers, Python and JSON values, source code."""

import ast
import json
import re
import threading
import warnings
from contextlib import suppress
from decimal import Context, Decimal
from fractions import Fraction
from textwrap import dedent
from typing import Any

from sigma_mem.answers.stated import fenced_blocks

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
    """The canonical number if the whole text is one, with at most $ or % next to it."""
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
    """Write a fraction: as a decimal if that ends, else in lowest terms."""
    if 10 ** value.denominator.bit_length() % value.denominator:  # another prime than 2 or 5
        return str(value)
    return _write_decimal(_EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)))


# --- LaTeX: \frac{1}{2}, 0.5 and 1/2 are the same answer ---

_NAMES = re.compile(r"\\(?:left|right|displaystyle|limits|[,!;: ])|\\?~|(?<!\\)\$")
_STYLES = re.compile(r"\\(?:text|mathrm|textbf|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{(-?\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))")
_ASSIGNED = re.compile(r"^[A-Za-z](?:\([A-Za-z]\))?=(?=[^=])")
SUPERSCRIPT = re.compile("⁻?[⁰¹²³⁴-⁹]+")


def plain_latex(text: str) -> str:
    """Drop spacing, delimiters and style from LaTeX; write fractions of integers as p/q."""
    bare = _STYLES.sub(r"\1", _NAMES.sub("", text.strip().rstrip(".")))
    bare = _FRACTION.sub(lambda m: f"{m[1] or m[2]}/{m[3] or m[4]}", bare)
    return _ASSIGNED.sub("", "".join(bare.split()))


# A string that does not end counts to the end of the text or line, so that every match succeeds at once.
# Groups are not possessive, (?:…)*+: Python below 3.11.5 matches such groups wrongly.
STRING = (
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*(?:"""|\\?\Z)'
    r"|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*(?:'''|\\?\Z)"
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"""
)


def _scanner(comment: str) -> re.Pattern[str]:
    """Finds strings, and the ends of lines: blanks, a comment, blank lines and lines of comments alone."""
    return re.compile(
        rf"(?P<string>{STRING})|(?<![ \t])(?:[ \t]*+(?:{comment})?\n)+|(?:{comment})[ \t]*+", re.DOTALL
    )


_HASH = _scanner(r"(?<!\S)#[^\n]*+")
_SLASH = _scanner(r"//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z)")
_PYTHON = re.compile(
    r"^[ \t]*+(?:def|class|for|while|if|elif|else|with|try)\b[^\n]*:[ \t]*+(?:#|$)", re.MULTILINE
)
_BRACES = re.compile(r";[ \t]*+(?://|/\*|$)|[)>][ \t]*+\{|^[ \t]*+(?:#include|//|/\*)", re.MULTILINE)
_STARTS = re.compile(
    r"^(?:(?:async )?def \w+\(|class \w+[:({ ]|(?:for|while|if|with) [^\n]*:\n[ \t]"
    r"|from [\w.]+ import |import [\w.]+$|#include|function \w*\(|fn \w+|public (?:static|class) "
    r"|(?:const|let|var) \w+ =)",
    re.MULTILINE,
)


def canonical_program(text: str) -> str | None:
    r"""Return the source code of a response, from its longest fenced block or else the whole text.

    Comments are those of Python and the shell, or of C and its relatives if the code looks like them.

    >>> canonical_program("```python\nx = 1  # one\n\n\nif x:\n    y = 2 \n```")
    'x = 1\nif x:\n    y = 2'
    """
    code = max(fenced_blocks(text), key=len, default=text)
    code = code.replace("\r\n", "\n").replace("\r", "\n") + "\n"
    slashes = _PYTHON.search(code) is None and _BRACES.search(code) is not None
    bare = (_SLASH if slashes else _HASH).sub(_without_comment, code)
    return dedent(bare.strip("\n")).rstrip() or None


def _without_comment(found: re.Match[str]) -> str:
    return found["string"] or ("\n" if found[0].endswith("\n") else "")


def starts_program(text: str) -> bool:
    """Whether some line of a text with several lines begins a function, a class, a loop or an import."""
    return "\n" in text and _STARTS.search(text) is not None


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
    """Return the canonical form of JSON or of a Python literal; None if Python's parser may warn.

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
    """Return the JSON of a response with sorted keys, None if there is none.

    Looked for in the fenced blocks, the last one first, then in the whole text, then from the first brace or
    bracket on. A Python literal counts if JSON can hold its value.

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

    TypeError if JSON cannot hold the value.
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
