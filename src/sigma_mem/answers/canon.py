"""Canonical answers: equal canons vote together, None where nothing can be read.

First the part of a response that states its answer is found, then that part is read as a choice letter,
a number or short text, all in this file; LaTeX and Python literals have files of their own.
"""

import json
import re
import string
import unicodedata
from decimal import Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

from sigma_mem.answers.latex import has_words, plain_latex, simplify_math, to_latex
from sigma_mem.answers.literal import parse_literal, parse_simple_literal
from sigma_mem.errors import InputError

Kind = Literal["auto", "number", "math", "choice", "code", "text"]

_PROSE = 400  # characters; unmarked mathematics or code that is longer is reasoning, not an answer


def canon(text: str, kind: Kind = "auto") -> str | None:
    r"""Return the canonical form of an answer, or None where nothing can be read.

    The text may be a whole response that states its answer ("… the answer is (F)."). ``kind`` is the type of
    task: ``"auto"`` looks at the answer itself, ignores case, articles and punctuation, except where
    punctuation tells answers apart (C++, 3:45), needs no extra and takes microseconds. ``"math"`` compares by
    math-verify (MissingExtraError without the extra ``streams``), ``"code"`` by value.

    >>> canon("391"), canon("The answer is 391."), canon("$1,200.00"), canon("(B)")
    ('391', '391', '1200', 'B')
    >>> canon("The Eiffel Tower."), canon("[1,2]"), canon(r"\boxed{\frac12}"), canon(" ")
    ('eiffel tower', '[1, 2]', '0.5', None)
    >>> canon("x = 5", "number"), canon("2(x+1)", "math") == canon("2x + 2", "math")
    ('5', True)
    >>> canon("The answer is (F).", "choice"), canon("abc", "code") == canon("'abc'", "code")
    ('F', True)
    """
    stated = final_answer(text)
    answer = text if stated is None else stated
    if kind == "auto":
        return _auto(unwrap(answer).strip("*_ "))
    if kind == "number":  # the first number of a stated answer, the last one of any other text
        return _number(_SPACING.sub("", answer), last=stated is None)
    if kind == "choice":
        return _choice(text, unwrap(answer))
    if kind == "text":
        return _short_text(unwrap(answer)) or None
    if kind == "math":
        return _math(unwrap(answer), stated is not None)
    if kind == "code":
        return _code(unwrap(answer, quotes=False), stated is not None)
    raise InputError(f"got answer kind {kind!r}; expected one of {', '.join(get_args(Kind))}")


def _auto(answer: str) -> str | None:
    if not answer:
        return None
    if (letter := _whole_choice(answer)) is not None:
        return letter
    if answer[0] in "[{(" and answer[-1] in ")}]" and (value := parse_simple_literal(answer)) is not None:
        return value
    if "\\" in answer and len(answer) < 200:  # longer ones are prose, kept as they are
        answer = plain_latex(answer)
    return _whole_number(answer) or _cautious_text(answer) or None


def _math(answer: str, stated: bool) -> str | None:
    """Read a plain number directly, have math-verify simplify the rest; words are short text."""
    answer = to_latex(answer)
    if re.fullmatch(r"[\s_?.…-]*", answer) or (not stated and len(answer) > _PROSE):
        return None
    plain = plain_latex(answer)
    if (value := _whole_number(plain)) is not None:
        return value
    if len(plain) > _PROSE or not answer.isascii() or has_words(answer):
        return _cautious_text(answer) or None
    return simplify_math(answer) or plain


def _code(answer: str, stated: bool) -> str | None:
    """Read a Python value; a string counts as its characters, since models often leave the quotes out."""
    if (value := parse_literal(answer)) is not None:
        return value
    if not stated and (not answer or len(answer) > _PROSE):
        return None
    quoted = len(answer) > 1 and answer[0] == answer[-1] and answer[0] in "'\""
    return answer[1:-1] if quoted else answer  # a string with a bare line break is no literal


# --- where a response states its answer ---

_JSON_FIELD = re.compile(r'"(?:final[_ ])?answer\\?"\s*:\s*')
_JSON_END = re.compile(r'"?\s*\}\s*(?:`|$)|"\s*\n|"?\s*$')
_AFTER_ANSWER = re.compile(r"[*_]*\s*(?:is\b\s*:?|:)[\s*_]*", re.IGNORECASE)
_STATED_END = re.compile(r"\n|[.!?](?=\s|$|[*<])")
_HASHES = re.compile(r"####\s*(.+)")


def final_answer(text: str) -> str | None:
    r"""Return the stated answer of a response, or None where none is marked.

    Looked for, in this order: the last JSON field ``"answer"``, the last ``\boxed{…}``, the
    last ``#### …``, the first ``answer is …`` or ``Answer: …``. The first, because models
    that run on after their answer go on with another question.

    >>> final_answer("Half of 34 is 17. The answer is (B). Q: next …")
    '(B)'
    """
    if '"' in text and (fields := list(_JSON_FIELD.finditer(text))):
        return _json_value(text[fields[-1].end() :])
    if "\\boxed" in text and (boxed := _last_boxed(text)) is not None:
        return boxed
    if "####" in text and (marks := _HASHES.findall(text)):
        return str(marks[-1]).strip()
    return _stated(text)


def _stated(text: str) -> str | None:
    """The rest of the first sentence that says "answer is …" or "answer: …"."""
    # Lower case can differ in length from the text for a few letters, which only shifts the search.
    folded = text.lower()
    place = folded.find("answer")
    while place >= 0:
        if (said := _AFTER_ANSWER.match(text, place + len("answer"))) is not None:
            end = _STATED_END.search(text, said.end())
            answer = text[said.end() : end.start() if end else len(text)].strip()
            return (_stated(answer) if "answer" in answer.lower() else None) or answer or None
        place = folded.find("answer", place + 1)
    return None


def _json_value(rest: str) -> str:
    """Read a JSON value, or what a model wrote in its place."""
    if rest.startswith('\\"'):  # JSON inside a JSON string
        rest = rest.replace('\\"', '"')
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(rest)
    except (json.JSONDecodeError, RecursionError):  # e.g. one backslash where JSON wants two
        end = _JSON_END.search(rest)
        return (rest[: end.start()] if end else rest).removeprefix('"').strip()
    return value.strip() if isinstance(value, str) else repr(value)


def _last_boxed(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed")
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin + 1 : place].strip()
    return None  # cut off inside the box


_WRAPS = (("**", "**"), ("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$"), ("`", "`"), ("*", "*"))
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))


def unwrap(text: str, quotes: bool = True) -> str:
    """Strip blanks, markdown and math delimiters, and quotes that enclose the whole text."""
    text = text.strip()
    for left, right in _WRAPS + (_QUOTES if quotes else ()):
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right):
            inner = text[len(left) : -len(right)]
            if left not in inner and right not in inner:
                return unwrap(inner, quotes)
    return text


# --- choice letters: (B), B. and "the answer is B" are the same answer ---

_CHOICES = (
    re.compile(r"\banswer is\s*:?\s*(?:option\s+)?[*$\\]*(?:boxed\{|text\{)*\(?([A-Z])\b(?!['’])"),
    re.compile(r"\b[Aa]nswer\**\s*:\s*(?:[Oo]ption\s+)?[*$]*\(?([A-Z])\b(?!['’])"),
)
_LEADING_CHOICE = re.compile(r"\(?([A-Z])(?:[).:]|\s*$)")
_WHOLE_CHOICE = re.compile(r"\(?([A-Za-z])(?:[).:]?|\)\s.*)$", re.DOTALL)


def _choice(text: str, answer: str) -> str | None:
    """The letter that a text states, or else the one that its answer begins with or is."""
    found = [pattern.search(text) for pattern in _CHOICES] + [_LEADING_CHOICE.match(answer)]
    return next((letter[1] for letter in found if letter), None) or _whole_choice(answer)


def _whole_choice(text: str) -> str | None:
    """The letter if the whole text is a choice (``B``, ``(B)``, ``B)``, ``B) Paris``)."""
    found = _WHOLE_CHOICE.match(text)
    return found[1].upper() if found else None


# --- numbers: 1,234.50 and $1234.5 are the same answer ---

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


def _number(text: str, last: bool) -> str | None:
    """The first or the last number of a text."""
    found = list(_NUMBER.finditer(text))
    return _write_number(found[-1 if last else 0]) if found else None


def _whole_number(text: str) -> str | None:
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


# --- short text: "The Eiffel Tower." and "eiffel tower" are the same answer ---

_PUNCTUATION = str.maketrans("", "", string.punctuation + "“”‘’«»…–—")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TELLING = re.compile(r"[\d+*/=<>^#@&|%$\\_~{}\[\]]")


def _short_text(text: str) -> str:
    """Normalise as SQuAD does: lower case, no punctuation, no articles, unless nothing is left."""
    folded = _fold_case(text)
    bare = " ".join(_ARTICLES.sub(" ", folded.translate(_PUNCTUATION)).split())
    return bare or folded


def _cautious_text(text: str) -> str:
    """Like `_short_text`, but punctuation stays where it can tell answers apart: C++ or C, 3:45 or 345."""
    if _TELLING.search(text) is None:
        return _short_text(text)
    folded = _fold_case(text)
    return folded.rstrip(".!?,;: ") or folded


def _fold_case(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())
