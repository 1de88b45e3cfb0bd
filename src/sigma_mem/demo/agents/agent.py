"""What an agent is: something that answers a question from its text alone."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Agent"]


class Agent(Protocol):
    """Answers every question as well as it can; "" where it has nothing to say.

    There is no accuracy to set anywhere: an agent is right where its method works and
    wrong where it does not.
    """

    def answer(self, question: str) -> str:
        """The agent's answer, as text."""
