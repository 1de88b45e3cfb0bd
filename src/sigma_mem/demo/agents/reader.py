"""Finds the answer to a question in a passage by word overlap."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Reader", "best_sentence", "split_passage", "stems"]

_COMMON = frozenset(
    {
        *("a", "an", "and", "are", "as", "by", "did", "do", "does", "from", "how"),
        *("in", "is", "many", "of", "the", "there", "to", "what", "which", "who", "with"),
    }
)
_NAME = re.compile(r"\b[A-Z][a-z]+\b")


def stems(text: str) -> set[str]:
    """Words that carry meaning, cut to six letters so that "works" meets "work".

    >>> sorted(stems("Who works as a carpenter?"))
    ['carpen', 'work']
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {(w[:-1] if w.endswith("s") and len(w) > 3 else w)[:6] for w in words if w not in _COMMON}


def split_passage(text: str) -> tuple[list[str], str]:
    """The sentences of a text, and the question asked about them (its last line)."""
    *lines, question = text.strip().splitlines() or [""]
    passage = " ".join(lines).removeprefix("Read the passage. ")
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", passage) if s]
    return sentences, question.removeprefix("Question: ")


def best_sentence(text: str, limit: int | None = None) -> tuple[str, str]:
    """Of the first ``limit`` sentences the one that shares most stems with the question, and the question.

    Of equals the first.
    """
    sentences, question = split_passage(text)
    wanted = stems(question)
    return max(sentences[:limit] or [question], key=lambda s: len(wanted & stems(s))), question


@dataclass(frozen=True, slots=True)
class Reader:
    r"""Takes from the best sentence what the question word asks for.

    It does not resolve pronouns, so "She seasons it with mint." is lost on it. On anything that
    is not a passage it does the same, which yields some word or figure of the question.

    >>> Reader().answer("Ada is a baker in Oslo. Emil is a pilot in Quito.\nQuestion: Who is a pilot?")
    'Emil'
    """

    def answer(self, question: str) -> str:
        """A name, place, spice or count from the best sentence; "" where there is none."""
        sentence, asked = best_sentence(question)
        if "spice" in asked:
            found = re.findall(r"\bwith (\w+)", sentence)
        elif asked.startswith("How many"):
            found = re.findall(r"\d+", sentence)
        elif "city" in asked:
            found = re.findall(r"\b(?:in|to|from) ([A-Z][a-z]+)", sentence)
        else:
            found = _NAME.findall(sentence) if asked.startswith("Who") else re.findall(r"\w+", sentence)[-1:]
        return found[0] if found else ""
