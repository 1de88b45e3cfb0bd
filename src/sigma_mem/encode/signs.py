"""How answers to one question are written, as a few numbers: what a reader notices before judging.

Who answered and what was asked says much of whether an answer is right; how it is written says a little
more. A response that repeats itself, or works out no number of its own, or uses words that nobody else
uses, is wrong more often than its peers'. Which sign speaks for an answer, and how loudly, is not
decided here: the memory learns it (`sigma_mem.memory.signs`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from sigma_mem.events import Answer, FloatArray

__all__ = ["SIGNS", "signs"]

SIGNS = (
    "length",
    "repeats",
    "variety",
    "digits",
    "equations",
    "code",
    "hedges",
    "names answer",
    "of question",
    "own numbers",
    "like others",
)
_LAST = 4000  # characters of a text that are looked at: its end, where the answer is
_RUN = 4  # words that make a repetition
_DECIMALS = 4  # as the ledger keeps them
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DIGIT = re.compile(r"\d")
_DOUBT = """almost apologize approx approximate approximately assume assumed assumes assuming assumption
cannot closest correction error however incorrect likely maybe mistake mistaken nearest none perhaps possibly
probably reconsider seem seems sorry unable unclear unknown unsure wait"""
_HEDGES = frozenset(_WORD.findall(_DOUBT))


def signs(question: str, answers: Sequence[Answer]) -> FloatArray:
    """The signs of every answer, shape (answers, len(SIGNS)).

    ``length`` is log(1 + characters); ``repeats`` the share of runs of four words that were there before;
    ``variety`` distinct words per word; ``digits`` the share of digits; ``equations`` log(1 + equals signs);
    ``code`` whether there is a code block; ``hedges`` log(1 + words of doubt, in English); ``names answer``
    log(1 + how often the canonical answer occurs); ``of question`` the share of distinct words that the
    question has too; ``own numbers`` the share of distinct numbers that it has not; ``like others`` the mean
    overlap (Jaccard) of its words with those of the other answers.

    Examples
    --------
    >>> rows = signs("What is 17 * 23?", [Answer("17 * 23 = 340 + 51 = 391", "391"), Answer("391", "391")])
    >>> dict(zip(SIGNS, rows[0].tolist(), strict=True))["own numbers"]
    0.5
    """
    asked = question.lower()
    words_asked, numbers_asked = set(_WORD.findall(asked)), set(_NUMBER.findall(asked))
    texts = [answer.text[-_LAST:].lower() for answer in answers]
    words = [_WORD.findall(text) for text in texts]
    vocabularies = [set(found) for found in words]
    overlap = _overlaps(vocabularies)
    rows = []
    for i, (answer, text) in enumerate(zip(answers, texts, strict=True)):
        size, numbers = len(vocabularies[i]) + 1, set(_NUMBER.findall(text))
        rows.append(
            (
                math.log1p(len(text)),
                _repeats(words[i]),
                len(vocabularies[i]) / (len(words[i]) + 1),
                len(_DIGIT.findall(text)) / (len(text) + 1),
                math.log1p(text.count("=")),
                float("```" in text),
                math.log1p(sum(map(_HEDGES.__contains__, words[i]))),
                math.log1p(answer.text.count(answer.canon)) if answer.canon else 0.0,
                len(vocabularies[i] & words_asked) / size,
                len(numbers - numbers_asked) / (len(numbers) + 1),
                overlap[i],
            )
        )
    return np.array(rows).reshape(len(rows), len(SIGNS)).round(_DECIMALS)


def _overlaps(vocabularies: Sequence[set[str]]) -> list[float]:
    """Mean Jaccard overlap of each with the others; the order of the others does not matter."""
    n = len(vocabularies)
    shared: list[list[float]] = [[] for _ in vocabularies]
    for i, mine in enumerate(vocabularies):
        for j in range(i):
            both = len(mine & vocabularies[j])
            jaccard = both / (len(mine) + len(vocabularies[j]) - both + 1)
            shared[i].append(jaccard)
            shared[j].append(jaccard)
    return [math.fsum(row) / max(1, n - 1) for row in shared]


def _repeats(words: list[str]) -> float:
    runs = list(zip(*(words[start:] for start in range(_RUN)), strict=False))
    return 1.0 - len(set(runs)) / len(runs) if runs else 0.0
