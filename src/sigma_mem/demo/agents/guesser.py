"""Cheap: has no skill of its own and copies a neighbour's answer, mistakes and all."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .agent import Agent

__all__ = ["Guesser"]

_SUM = re.compile(r"\d (?:[-+*/]|plus|minus|times|less|added|multiplied|is divided|over)")


@dataclass(frozen=True, slots=True)
class Guesser:
    """Asks ``sums`` where the question looks like a sum, else ``other``, and says the same.

    It therefore fails where they fail, and with the same answer: a shared blind spot.
    """

    sums: Agent
    other: Agent

    def answer(self, question: str) -> str:
        """The copied answer."""
        neighbour = self.sums if _SUM.search(question) else self.other
        return neighbour.answer(question)
