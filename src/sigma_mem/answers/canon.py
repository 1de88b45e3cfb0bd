"""Canonical answers: equal canons vote together, None if nothing can be read.

First the part of a response that states its answer is found (`stated`), then that part is read. Choice
letters and short text are read in this file, every other form in a file of its own. Reading takes time linear
in the length of the text, needs no network and raises only errors of this package.
"""

import re
import string
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

from sigma_mem.answers.forms import (
    SUPERSCRIPT,
    canonical_program,
    number_in,
    parse_json,
    parse_literal,
    parse_value,
    plain_latex,
    starts_program,
    whole_number,
)
from sigma_mem.answers.stated import fenced_blocks, final_answer, narrow, unwrap, without_thoughts
from sigma_mem.errors import InputError

Kind = Literal["auto", "number", "choice", "text", "json", "code", "program"]
Canon = Kind | Callable[[str], str | None]
KINDS: tuple[Kind, ...] = get_args(Kind)

_PROSE = 400  # characters; unmarked code that is longer is reasoning, not an answer


def canon(text: str, kind: Kind = "auto") -> str | None:
    r"""Return the canonical form of an answer, or None if nothing can be read.

    The text may be a whole response that states its answer ("… the answer is (F)."), with reasoning before
    it (``<think>…</think>``). ``kind`` is the type of task: ``"auto"`` chooses by the answer itself, ignores
    case, articles and punctuation, except if punctuation distinguishes answers (C++, 3:45). ``"json"`` and
    ``"code"`` (a Python literal) compare by value; ``"program"`` is source code.

    >>> canon("391"), canon("The answer is 391."), canon("$1,200.00"), canon("(B)")
    ('391', '391', '1200', 'B')
    >>> canon("The Eiffel Tower."), canon("[1,2]"), canon(r"\boxed{\frac12}"), canon(" ")
    ('eiffel tower', '[1, 2]', '0.5', None)
    >>> canon("x = 5", "number"), canon("The answer is (F).", "choice")
    ('5', 'F')
    >>> canon("abc", "code") == canon("'abc'", "code")
    True
    """
    if kind not in KINDS:
        raise InputError(f"got answer kind {kind!r}; expected one of {', '.join(KINDS)}")
    text = without_thoughts(text)
    if kind == "json":
        return parse_json(text)
    if kind == "program":
        return canonical_program(text)
    if kind != "code":
        text = narrow(text)
    stated = final_answer(text)
    answer = text if stated is None else stated
    if kind == "auto":
        return _auto(unwrap(answer).strip("*_ "))
    if kind == "number":  # the first number of a stated answer, the last one of any other text
        return number_in(answer, last=stated is None)
    if kind == "choice":
        return _choice(text, unwrap(answer))
    if kind == "text":
        return _short_text(unwrap(answer)) or None
    return _code(answer, stated is not None)


def canon_function(canon_or_name: Canon) -> Callable[[str], str | None]:
    """The function behind the name of a kind, or the function itself; InputError for anything else."""
    if callable(canon_or_name):
        return canon_or_name
    if isinstance(canon_or_name, str) and canon_or_name in KINDS:
        return partial(canon, kind=canon_or_name)
    raise InputError(
        f"canon is {canon_or_name!r}; expected one of {', '.join(KINDS)}, or a function of the text"
    )


def _auto(answer: str) -> str | None:
    if not answer:
        return None
    if (letter := _whole_choice(answer) or _named_choice(answer)) is not None:
        return letter
    if answer[0] in "[{(" and answer[-1] in ")}]" and (value := parse_value(answer)) is not None:
        return value
    if starts_program(answer):
        return canonical_program(answer)
    if "\\" in answer and len(answer) < 200:  # longer ones are prose, kept as they are
        answer = plain_latex(answer)
    return whole_number(answer) or cautious_text(answer) or None


def _code(answer: str, stated: bool) -> str | None:
    """Read a Python value; a string counts as its characters, since models often leave the quotes out."""
    if not stated:
        answer = next(reversed(fenced_blocks(answer)), answer)
    answer = unwrap(answer, quotes=False)
    if (value := parse_literal(answer)) is not None:
        return value
    if not stated and (not answer or len(answer) > _PROSE):
        return None
    quoted = len(answer) > 1 and answer[0] == answer[-1] and answer[0] in "'\""
    return answer[1:-1] if quoted else answer  # a string with a bare line break is not a literal


# --- choice letters: (B), B. and "the answer is B" are the same answer ---

_CHOICES = (
    re.compile(r"\banswer is\s*+:?\s*+(?:option\s++)?[*$\\]*+(?:boxed\{|text\{)*\(?([A-Z])\b(?!['’])"),
    re.compile(r"\b[Aa]nswer\**+\s*+:\s*+(?:[Oo]ption\s++)?[*$]*+\(?([A-Z])\b(?!['’])"),
)
_CJK = "぀-ヿ㐀-鿿가-힣"  # no blank stands between a letter and these
_LEADING_CHOICE = re.compile(rf"\(?([A-Z])(?:[).:]|\s*$|,? ?[{_CJK}])")
_WHOLE_CHOICE = re.compile(r"\(?([A-Za-z])(?:[).:]?|\)\s.*)$", re.DOTALL)
_NAMED_CHOICE = re.compile(rf"([A-H])(?:\. +[^a-z\s]|[.,:] ?[{_CJK}]).*$")  # one line; not E. coli, I. Newton


def _choice(text: str, answer: str) -> str | None:
    """The letter that a text states, or else the one that its answer begins with or is."""
    found = [pattern.search(text) for pattern in _CHOICES] + [_LEADING_CHOICE.match(answer)]
    return next((letter[1] for letter in found if letter), None) or _whole_choice(answer)


def _whole_choice(text: str) -> str | None:
    """The letter if the whole text is a choice (``B``, ``(B)``, ``B)``, ``B) Paris``)."""
    found = _WHOLE_CHOICE.match(text)
    return found[1].upper() if found else None


def _named_choice(text: str) -> str | None:
    """The letter of ``B. Paris``."""
    found = _NAMED_CHOICE.match(text)
    return found[1] if found else None


# --- short text: "The Eiffel Tower." and "eiffel tower" are the same answer ---

_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}“”‘’«»…–—]+")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TELLING = re.compile(r"[\d+*/=<>^#@&|%$\\_~{}\[\]⁰¹²³⁴-⁹]")
_WORD = re.compile(r"\S{1,256}")  # not longer: normalising n combining marks takes time quadratic in n


def _short_text(text: str) -> str:
    """Normalise as SQuAD does: lower case, no punctuation, no articles, unless nothing is left."""
    folded = _fold_case(text)
    bare = " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub("", folded)).split())
    return bare or folded


def cautious_text(text: str) -> str:
    """Like `_short_text`, but punctuation stays if it can distinguish answers: C++ or C, 3:45 or 345."""
    if _TELLING.search(text) is None:
        return _short_text(text)
    folded = _fold_case(text)
    return folded.rstrip(".!?,;: ") or folded


def _fold_case(text: str) -> str:
    """Lower case, in the Unicode form NFKC, with single blanks; x² is x^2, not x2."""
    if not text.isascii():
        text = SUPERSCRIPT.sub(r"^\g<0>", text)
        text = _WORD.sub(lambda word: unicodedata.normalize("NFKC", word[0]), text)
    return " ".join(text.casefold().split())
