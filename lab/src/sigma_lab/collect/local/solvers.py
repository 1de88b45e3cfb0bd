"""The local solvers by name, and how each becomes a peer."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from sigma_lab.collect.asking import Body, Reply
from sigma_lab.collect.local.computing import computing
from sigma_lab.collect.local.embedding import embedding
from sigma_lab.collect.local.lexical import lexical
from sigma_lab.collect.task_prompts import labelled_choices
from sigma_mem.errors import InputError

Choices = Sequence[tuple[str, str]]
SOLVERS: dict[str, Callable[[str, Choices], str]] = {
    "lexical": lexical,
    "embedding": embedding,
    "computing": computing,
}

# The last paragraph, where it only says in which form to answer: no part of the question.
_FORM = re.compile(r"\n\n(?:Reason step by step|End with a line|Answer in as few words|Reply with)[^\n]*\Z")


def solve(name: str, question: dict[str, Any]) -> str:
    """The answer of a solver to a question with ``prompt`` and maybe ``choices``.

    An option is answered by its letter, or by its label where that is a word.

    >>> solve("computing", {"prompt": "What is 17 * 23?"})
    '391'
    >>> solve("computing", {"prompt": "What is 2 + 2?", "choices": ["3", "4"]})
    'The answer is (B).'
    """
    prompt, choices = question.get("prompt"), labelled_choices(question.get("choices") or ())
    if not isinstance(prompt, str):
        raise InputError(f"got prompt {prompt!r}; expected a text")
    found = SOLVERS[name](_FORM.sub("", prompt) or prompt, choices)
    return f"The answer is ({found})." if len(found) == 1 and found in dict(choices) else found


class LocalSolver:
    """A solver as a peer."""

    def __init__(self, name: str) -> None:
        if name not in SOLVERS:
            raise InputError(f"got local:{name}; expected one of {', '.join(SOLVERS)}")
        self._name = name

    def ask(self, requests: Sequence[Body]) -> list[Reply]:
        """One answer per question."""
        return [Reply(text=solve(self._name, request["input"]), model=self._name) for request in requests]

    def close(self) -> None:
        """Nothing to end."""
