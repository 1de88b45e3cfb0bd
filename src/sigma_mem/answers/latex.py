r"""LaTeX: \frac{1}{2}, 0.5 and 1/2 are the same answer."""

from __future__ import annotations

import re
from functools import lru_cache

from sigma_mem.answers.final import final_answer, unwrap
from sigma_mem.answers.mathworker import MathWorker
from sigma_mem.answers.number import whole_number
from sigma_mem.answers.text import cautious_text

__all__ = ["latex", "plain_latex"]

_LONGEST = 400  # characters; a longer answer is prose, compared as written
_NAMES = re.compile(r"\\(?:left|right|displaystyle|limits|[,!;: ])|\\?~|(?<!\\)\$")
_STYLES = re.compile(r"\\(?:text|mathrm|textbf|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{(-?\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))")
_ASSIGNED = re.compile(r"^[A-Za-z](?:\([A-Za-z]\))?=(?=[^=])")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_FUNCTIONS = re.compile(r"(?:arc)?(?:sin|cos|tan)|sqrt|cot|sec|csc|log|exp|abs|min|max|gcd|lcm|mod")
_CONSTANTS = re.compile(r"(?<![\\A-Za-z])pi(?![A-Za-z])")
_SIGNS = str.maketrans(
    {"−": "-", "×": "\\times ", "·": "\\cdot ", "π": "\\pi ", "∞": "\\infty ", "°": "^\\circ "}
)
_ROOT = re.compile(r"√\s*(\d+|[A-Za-z]|\([^()]*\))")
_BLANK = re.compile(r"^[\s_?.…-]*$")


def latex(text: str) -> str | None:
    r"""Return the mathematical answer of a response; equal answers get the same canon.

    Plain numbers are read directly; everything else is parsed by math-verify and simplified
    by sympy, in another process that is ended when it takes too long. What cannot be parsed
    is compared as LaTeX without spacing and style, and words as short text.

    Raises
    ------
    MissingExtraError
        Where math-verify is needed and the extra ``streams`` is not installed.

    Examples
    --------
    >>> latex(r"so it is $\boxed{\tfrac{1}{2}}$."), latex("The answer is $0.50$.")
    ('0.5', '0.5')
    """
    stated = final_answer(text)
    answer = unwrap(text if stated is None else stated).translate(_SIGNS)
    answer = _ROOT.sub(r"\\sqrt{\1}", answer)
    if _BLANK.match(answer) or (stated is None and len(answer) > _LONGEST):
        return None
    plain = plain_latex(answer)
    if (value := whole_number(plain)) is not None:
        return value
    if len(plain) > _LONGEST or not answer.isascii() or _says(answer):
        return cautious_text(answer) or None
    return _parsed(_CONSTANTS.sub(r"\\\g<0>", answer)) or plain


def _says(answer: str) -> bool:
    """Whether it holds words: to a parser of mathematics "no solution" is a product of letters."""
    return any(not _FUNCTIONS.fullmatch(word) for word in _WORD.findall(_STYLES.sub("", answer)))


def plain_latex(text: str) -> str:
    """Drop spacing, delimiters and style from LaTeX; write fractions of integers as p/q."""
    bare = _STYLES.sub(r"\1", _NAMES.sub("", text.strip().rstrip(".")))
    bare = _FRACTION.sub(lambda m: f"{m[1] or m[2]}/{m[3] or m[4]}", bare)
    return _ASSIGNED.sub("", "".join(bare.split()))


@lru_cache(maxsize=65_536)
def _parsed(answer: str) -> str | None:
    return _worker().simplify(answer)


@lru_cache(maxsize=1)
def _worker() -> MathWorker:
    return MathWorker()
