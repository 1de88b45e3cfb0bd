"""What every response-blind router is: two verbs."""

from __future__ import annotations

from typing import Protocol

from sigma_mem.events import FloatArray

__all__ = ["Router"]


class Router(Protocol):
    """Chooses a peer from φ alone, and learns from labels that come later."""

    def choose(self, phi: FloatArray) -> int:
        """Index of the peer to trust with this task; ties go to the one listed first."""
        ...

    def learn(self, phi: FloatArray, labels: FloatArray, chosen: int) -> None:
        """Take the labels c ∈ [−1, 1] of an event, NaN where there is none; ``chosen`` was chosen for it."""
        ...
