"""Graders: from a peer's response to whether it is right, and to the canon that it votes with.

The canon is read from the response alone; no reference decides which answers vote together. A grader is a
function of a question and a response; `GRADERS` names them, except for programs (`program_grader`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sigma_lab.collect.math_answers import has_words, math_canon, same_math, to_latex
from sigma_lab.collect.questions import Question
from sigma_mem.answers.canon import canon
from sigma_mem.answers.stated import final_answer


@dataclass(frozen=True, slots=True)
class Grade:
    """Whether a response is right, its canon (None if nothing can be read), and why it is wrong."""

    right: bool
    canon: str | None
    contained: bool = False  # of a span: whether it holds an accepted answer among other words
    why: str = ""


TextGrader = Callable[[Question, str], Grade]

_TELLING = 4  # letters
_LONGEST = 400  # characters that math-verify is given
_RUN_ON = re.compile(r"\n\s*(?:Question|Q|Problem)\s*\d*[.:]")  # a model that continues with another question
_ANSWER_LINE = re.compile(
    r"^[\s*_#>-]*(?:(?:the |my )?final )?answer[\s*_]*[:：][\s*_]*(.+?)[\s*_]*$", re.IGNORECASE | re.MULTILINE
)


def stated_answer(text: str) -> str | None:
    r"""The last line "Answer: …" of a response, or what `final_answer` finds; None if nothing is stated.

    >>> stated_answer("Paris or Lyon?\nAnswer: St. Denis\n\nQuestion: next …"), stated_answer("hm")
    ('St. Denis', None)
    """
    own = (_RUN_ON.split(text.strip(), maxsplit=1) or [""])[0]
    lines = _ANSWER_LINE.findall(own)
    return str(lines[-1]).strip() if lines and "\\boxed" not in own else final_answer(own)


def grade_number(question: Question, text: str) -> Grade:
    """The first number of the stated answer, or the last one of the response."""
    stated = stated_answer(text)
    given = canon(f"#### {stated}" if stated else text, "number")
    return Grade(given is not None and given == canon(question.reference.answers[0], "number"), given)


_LIST = re.compile(r"\$\s*[,;]\s*\$")  # between two formulas of a list
_STYLED = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")


def grade_math(question: Question, text: str) -> Grade:
    """Equal canons are right, and what math-verify finds equal; never an unreadable one."""
    stated = stated_answer(text)
    given, right = (
        _formula(form) for form in (text if stated is None else stated, question.reference.answers[0])
    )
    form = math_canon(text if stated is None else f"\\boxed{{{given}}}")
    if "$" in right:  # formulas among words, of which a parser would take one for the whole: compared as text
        return Grade(canon(_as_given(given), "text") == canon(_as_given(right), "text"), form)
    if form is None or form == math_canon(f"\\boxed{{{right}}}"):
        return Grade(form is not None, form)
    readable = not any(has_words(part) or len(part) > _LONGEST for part in (right, given))
    return Grade(readable and same_math(right, given), form)


def _formula(text: str) -> str:
    r"""An answer without the marks around it; words in \text{…} are words."""
    bare = _LIST.sub(", ", final_answer(text) or text).strip().removesuffix(".").strip("$ ")
    styled = _STYLED.fullmatch(bare)
    return to_latex(styled[1].strip() if styled else bare)


def grade_choice(question: Question, text: str) -> Grade:
    """The letter of an option, or the whole text of exactly one."""
    stated = stated_answer(text)
    said = _plain(stated if stated is not None else text)
    labels = [label for label, _ in question.choices]
    named = [label for label, option in question.choices if _plain(option) == said]
    given = canon(f"Answer: {stated}" if stated else text, "choice")
    if len(named) == 1 and said.upper() not in labels:  # an option's text may itself be "C"
        given = named[0]
    given = given if given in labels else None
    return Grade(given is not None and given in question.reference.answers, given)


_SAME_LABEL = {"true": "yes", "false": "no", "correct": "yes", "incorrect": "no"}


def grade_label(question: Question, text: str) -> Grade:
    """One of a few words: the first in a stated answer, or the only one that the text names."""
    labels = {_plain(label).replace("_", " "): label for label, _ in question.choices}
    words = labels | {word: labels[same] for word, same in _SAME_LABEL.items() if same in labels}
    found = re.compile(r"\b(?:" + "|".join(sorted(map(re.escape, words), key=len, reverse=True)) + r")\b")
    stated = stated_answer(text)
    said = [
        words[word]
        for word in found.findall(_plain(stated if stated is not None else text).replace("_", " "))
    ]
    given = said[0] if said and (stated is not None or len(set(said)) == 1) else None
    return Grade(given is not None and given in question.reference.answers, given)


def grade_span(question: Question, text: str) -> Grade:
    """SQuAD's exact match with an accepted answer or alias; whether it contains one is reported apart."""
    stated = stated_answer(text)
    given = canon(_as_given(stated if stated is not None else text), "text")
    if given is None:
        return Grade(False, None)
    accepted = [canon(_as_given(answer), "text") or "" for answer in question.reference.answers]
    return Grade(given in accepted, given, any(contains(given, answer) for answer in accepted))


def contains(given: str, right: str) -> bool:
    """Whether a normalised answer holds another one as whole words, and that has four letters or more.

    >>> contains("the denver broncos", "denver broncos"), contains("i cannot compute this", "i")
    (True, False)
    """
    return len(right) >= _TELLING and f" {right} " in f" {given} "


def grade_words(question: Question, text: str) -> Grade:
    """A list of words in the right order, whatever separates them."""
    return _sequence(
        question, text, lambda said: " ".join(re.findall(r"[^\s,;]+", said.casefold())).rstrip(".")
    )


def grade_brackets(question: Question, text: str) -> Grade:
    """A sequence of brackets."""
    return _sequence(question, text, lambda said: " ".join(re.findall(r"[][(){}<>]", said)))


def _sequence(question: Question, text: str, read: Callable[[str], str]) -> Grade:
    stated = stated_answer(text)
    given = read(stated if stated is not None else text) or None
    return Grade(given is not None and given == read(question.reference.answers[0]), given)


def _plain(text: str) -> str:
    """For comparisons of labels and options: no case, no marks around, single blanks."""
    return " ".join(text.casefold().split()).strip("*_$`'\"().,:;!? ")


def _as_given(text: str) -> str:
    """Keep `canon` from looking for a marked answer inside an answer."""
    return f"#### {' '.join(text.split())}"


GRADERS: Mapping[str, TextGrader] = {
    "number": grade_number,
    "math": grade_math,
    "choice": grade_choice,
    "label": grade_label,
    "span": grade_span,
    "words": grade_words,
    "brackets": grade_brackets,
}
