"""Text features: how each answer to a question is written, as a few numbers.

Which peer answered and what was asked is most of what predicts a right answer. How it is written adds a
little. A response that repeats itself, has no numbers of its own or uses words that nobody else uses is wrong
more often than its peers'. Which features predict correctness, and how strongly, the memory learns.
`prepare_answers` reads canons and features of the answers that a decision is given.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from reprlib import repr as brief
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from sigma_mem.answers.canon import Canon, canon_function
from sigma_mem.answers.chat import checked_text
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, FloatArray

FEATURES = (
    "length", "repeats", "variety", "digits", "equations", "code", "hedges", "names answer",
    "of question", "own numbers", "like others",
)  # fmt: skip
FEATURES_VERSION = 1  # kept with the features in the ledger; a memory never mixes two versions
_LAST = 4000  # characters read: the end of a text, where the answer is
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DOUBT = """almost apologize approx approximate approximately assume assumed assumes assuming assumption
cannot closest correction error however incorrect likely maybe mistake mistaken nearest none perhaps possibly
probably reconsider seem seems sorry unable unclear unknown unsure wait"""
_HEDGES = frozenset(_WORD.findall(_DOUBT))


def text_features(question: str, answers: Sequence[Answer]) -> FloatArray:
    """The text features of every answer, shape (answers, len(FEATURES)).

    They are computed on the last 4,000 characters. ``length`` is log(1 + characters); ``repeats`` the share
    of runs of four words that occurred before; ``variety`` distinct words per word; ``digits`` the share of
    digits; ``equations`` log(1 + equals signs); ``code`` whether there is a code block; ``hedges`` log(1 +
    English words of doubt); ``names answer`` log(1 + occurrences of the canonical answer); ``of question``
    the share of distinct words that are in the question; ``own numbers`` the share of distinct numbers that
    are not; ``like others`` the mean Jaccard overlap of its words with those of the other answers.

    >>> answers = [Answer("17 * 23 = 340 + 51 = 391", "391"), Answer("391", "391")]
    >>> rows = text_features("What is 17 * 23?", answers)
    >>> dict(zip(FEATURES, rows[0].tolist(), strict=True))["own numbers"]
    0.5
    """
    asked = question[-_LAST:].lower()
    words_asked, numbers_asked = set(_WORD.findall(asked)), set(_NUMBER.findall(asked))
    written = [(answer.text, answer.canon) for answer in answers]
    times = Counter(written)  # judges often write the same: it is read once
    ends = [text[-_LAST:] for text, _ in times]
    words = [_WORD.findall(end.lower()) for end in ends]
    vocabularies = [set(found) for found in words]
    overlap = _overlaps(vocabularies, list(times.values()))
    rows: dict[tuple[str, str | None], tuple[float, ...]] = {}
    for i, (each, end) in enumerate(zip(times, ends, strict=True)):
        size, numbers = len(vocabularies[i]) + 1, _NUMBER.findall(end)
        hedges = 0 if _HEDGES.isdisjoint(vocabularies[i]) else sum(map(_HEDGES.__contains__, words[i]))
        rows[each] = (
            math.log1p(len(end)),
            _repeats(words[i]),
            len(vocabularies[i]) / (len(words[i]) + 1),
            len("".join(numbers).replace(".", "")) / (len(end) + 1),
            math.log1p(end.count("=")),
            float("```" in end),
            math.log1p(hedges),
            math.log1p(end.count(each[1])) if each[1] else 0.0,
            len(vocabularies[i] & words_asked) / size,
            len(set(numbers) - numbers_asked) / (len(set(numbers)) + 1),
            overlap[i],
        )
    found = np.array([rows[each] for each in written]).reshape(len(answers), len(FEATURES))
    return found.round(4)  # as the ledger keeps them


def _overlaps(vocabularies: Sequence[set[str]], times: Sequence[int]) -> list[float]:
    """Mean Jaccard overlap of each with the others that have words; with how often each was given."""
    shared: list[list[float]] = [[] for _ in vocabularies]  # with each other one, as often as it was given
    for i, mine in enumerate(vocabularies):
        for j, other in enumerate(vocabularies[:i]):
            if mine and other:
                both = len(mine & other)
                jaccard = both / (len(mine) + len(other) - both + 1)
                shared[i].append(jaccard * times[j])
                shared[j].append(jaccard * times[i])
    given = sum(count for count, mine in zip(times, vocabularies, strict=True) if mine)
    out = []
    for mine, overlaps, count in zip(vocabularies, shared, times, strict=True):
        same = (count - 1) * len(mine) / (len(mine) + 1)
        out.append((math.fsum(overlaps) + same) / max(1, given - 1))
    return out


def _repeats(words: list[str]) -> float:
    runs = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return 1.0 - len(set(runs)) / len(runs) if runs else 0.0


class Answers(NamedTuple):
    """By peer: its answer, and its text features if it is readable and not the only readable one.

    `verdicts` has the scores of judges: judge → peer → score.
    """

    by_peer: Mapping[str, Answer]
    features: Mapping[str, Sequence[float]]
    verdicts: Mapping[str, Mapping[str, float]] = MappingProxyType({})


NO_ANSWERS = Answers({}, {})


def check_in_pool(answers: Iterable[str], peers: Sequence[str]) -> None:
    """InputError if a peer that answered is not in the pool."""
    unknown = next((peer for peer in answers if peer not in peers), None)
    if unknown is not None:
        raise InputError(
            f"peer {unknown!r} is not in the pool {list(peers)}; add it first (add_peer, sigma-mem peers add)"
        )


def prepare_answers(
    question: str | None, answers: Mapping[str, str | Answer | None], canon: Canon, with_features: bool
) -> Answers:
    """Read the canon of every answer and, if two or more are readable, the features of their texts."""
    if not answers:
        raise InputError("answers are empty; expected {peer: text} for at least one peer")
    read = cache(canon_function(canon))  # peers often write the same
    found = {peer: _answer(peer, given, read) for peer, given in answers.items()}
    readable = [peer for peer, answer in found.items() if answer.canon is not None]
    if not with_features or len(readable) < 2:
        return Answers(found, {})
    rows = dict(zip(found, text_features(question or "", list(found.values())).tolist(), strict=True))
    return Answers(found, {peer: rows[peer] for peer in readable})


def read_answer(peer: str, given: str | Answer | None, canon: Canon) -> Answer:
    """A peer's answer with its canon; no text and no canon if it gave none."""
    return _answer(peer, given, canon_function(canon))


def _answer(peer: str, given: str | Answer | None, read: Callable[[str], str | None]) -> Answer:
    if given is None:
        return Answer("", None)
    if isinstance(given, str):
        checked = checked_text(given, f"the answer of peer {peer!r}")
        given = Answer(checked, read(checked))
    if not isinstance(given, Answer) or not isinstance(given.text, str):
        raise InputError(
            f"the answer of peer {peer!r} is {brief(given)}; "
            "expected text, an Answer, or None if there is none"
        )
    if not isinstance(given.canon, str | None):
        raise InputError(f"the canon of peer {peer!r} is {given.canon!r}; expected a string or None")
    return given
