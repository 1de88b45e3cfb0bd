"""Canonical answers: equal canons vote together, None where nothing can be read."""

from __future__ import annotations

from typing import Literal, get_args

from sigma_mem.answers.choice import choice, whole_choice
from sigma_mem.answers.final import final_answer, unwrap
from sigma_mem.answers.latex import latex, plain_latex
from sigma_mem.answers.literal import literal, quick_literal
from sigma_mem.answers.number import number, whole_number
from sigma_mem.answers.text import cautious_text, short_text
from sigma_mem.errors import InputError

__all__ = ["Kind", "canon"]

Kind = Literal["auto", "number", "math", "choice", "code", "text"]

_LONGEST = 200  # characters; more is prose, kept as it is
_FORMS = {"number": number, "math": latex, "choice": choice, "code": literal, "text": short_text}


def canon(text: str, kind: Kind = "auto") -> str | None:
    r"""Return the canonical form of an answer, or None where nothing can be read.

    Parameters
    ----------
    text : str
        The answer, or a whole response that states it ("… the answer is (F).").
    kind : {"auto", "number", "math", "choice", "code", "text"}
        The type of task. ``"auto"`` looks at the answer itself: it ignores case, articles and
        soft punctuation, keeps signs that tell answers apart (C++, 3:45), needs no extra and
        takes microseconds. ``"math"`` compares by math-verify, ``"code"`` by value.

    Examples
    --------
    >>> canon("391"), canon("The answer is 391."), canon("$1,200.00"), canon("(B)")
    ('391', '391', '1200', 'B')
    >>> canon("The Eiffel Tower."), canon("[1,2]"), canon(r"\boxed{\frac12}"), canon(" ")
    ('eiffel tower', '[1, 2]', '0.5', None)
    >>> canon("x = 5", "number"), canon("2(x+1)", "math") == canon("2x + 2", "math")
    ('5', True)
    """
    if kind == "auto":
        return _auto(text)
    form = _FORMS.get(kind)
    if form is None:
        raise InputError(f"the kind of answer is {kind!r}; expected one of {', '.join(get_args(Kind))}")
    return form(text)


def _auto(text: str) -> str | None:
    stated = final_answer(text)
    answer = unwrap(text if stated is None else stated).strip("*_ ")
    if not answer:
        return None
    if (letter := whole_choice(answer)) is not None:
        return letter
    if answer[0] in "[{(" and answer[-1] in ")}]" and (value := quick_literal(answer)) is not None:
        return value
    if "\\" in answer and len(answer) < _LONGEST:
        answer = plain_latex(answer)
    return whole_number(answer) or cautious_text(answer) or None
