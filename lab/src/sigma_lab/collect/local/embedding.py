"""Answering by meaning: the option whose token vectors point where the question's point."""

from collections.abc import Sequence

import numpy as np

from sigma_lab.collect.local.lexical import yes_no_labels
from sigma_lab.collect.local.passages import asked_part, candidates, sentences, without_options
from sigma_lab.encode.wordllama import raw_means

_SAME = 0.6  # cosine above which two lines say the same
_MOST = 64  # candidates of a passage that are looked at


def embedding(prompt: str, choices: Sequence[tuple[str, str]]) -> str:
    """The label of an option, or some words of the passage, nearest to the question.

    >>> options = [("A", "a guitar string"), ("B", "the mitochondria of the cell")]
    >>> embedding("Which part of a living cell makes its energy?", options)
    'B'
    """
    texts = [text for _, text in choices]
    if (verdict := yes_no_labels(choices)) is not None:
        lines = sorted(without_options(prompt, texts).splitlines(), key=len)[-2:]
        return verdict[0] if len(lines) == 2 and _cosines(lines[0], lines[1:])[0] >= _SAME else verdict[1]
    if choices:
        near = _cosines(without_options(prompt, texts), texts)
        return choices[int(np.argmax(near))][0]
    found = candidates(prompt)[:_MOST]
    if not found:
        return sentences(prompt)[-1]
    near = _cosines(asked_part(prompt), [f"{one.text} {one.sentence}" for one in found])
    return found[int(np.argmax(near))].text


def _cosines(text: str, others: Sequence[str]) -> list[float]:
    vectors = raw_means([text, *others])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return [float(cosine) for cosine in vectors[1:] @ vectors[0]]
