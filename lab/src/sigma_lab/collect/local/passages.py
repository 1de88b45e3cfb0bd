"""Reading a prompt: its words, its question, and what in its passage may be the answer."""

import re
from collections import Counter
from dataclasses import dataclass

_WORD = re.compile(r"[A-Za-z]+|\d[\d,.]*\d|\d")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about after all also an and any are as at be because been before being but by can could did do
        does for from had has have he her his how i if in into is it its many may more most much no not of
        on one or other she should so some such than that the their them then there these they this those to
        under up use used was we were what when where which while who whom whose why will with would you
        your answer question following passage context options option choices choose""",
    )
)


def stem_words(text: str) -> list[str]:
    """Lower-case stems of the words that carry meaning, in order.

    >>> stem_words("What is the boiling point of 2 metals?")
    ['boilin', 'point', '2', 'metal']
    """
    words = (word.lower() for word in _WORD.findall(text))
    return [word.rstrip("s")[:6] or word for word in words if word not in _COMMON]


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def asked_part(prompt: str) -> str:
    """The last sentence with a question mark; the last sentence where there is none."""
    parts = sentences(prompt)
    return next((part for part in reversed(parts) if part.endswith("?")), parts[-1] if parts else "")


def without_options(prompt: str, choices: list[str]) -> str:
    """The prompt without the lines that are its options: they would speak for themselves."""
    texts = sorted((text for text in choices if text.strip()), key=len, reverse=True)
    for text in texts:
        prompt = re.sub(rf"^\W*(?:\w\W+)?{re.escape(text)}\W*$", "", prompt, flags=re.MULTILINE)
    return prompt


@dataclass(frozen=True)
class Candidate:
    """A run of words that may be the answer, and the sentence it stands in."""

    text: str
    sentence: str
    overlap: float
    """How much of the question its sentence repeats, rare words counting more."""


def candidates(prompt: str) -> list[Candidate]:
    """Runs of words of the passage that the question does not use, best sentences first."""
    question = asked_part(prompt)
    asked = set(stem_words(question))
    passage = [part for part in sentences(prompt) if part != question]
    seen = Counter(stem for part in passage for stem in set(stem_words(part)))
    found: list[Candidate] = []
    for part in passage:
        overlap = sum(1.0 / seen[stem] for stem in asked & set(stem_words(part)))
        found += [Candidate(run, part, overlap) for run in _new_words(part, asked)]
    return sorted(found, key=lambda candidate: -candidate.overlap)


def _new_words(sentence: str, asked: set[str]) -> list[str]:
    """Maximal runs of words that carry meaning and are not in the question."""
    runs: list[list[str]] = [[]]
    for word in _WORD.findall(sentence):
        stems = stem_words(word)
        if stems and stems[0] not in asked:
            runs[-1].append(word)
        else:
            runs.append([])
    return [" ".join(run) for run in runs if run]
