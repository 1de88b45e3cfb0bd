"""Exploring routes: where only the chosen peer is ever labelled, the others must be tried as well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sigma_mem.memory.state import Reading

__all__ = ["Exploration", "explore"]


@dataclass(frozen=True, slots=True)
class Exploration:
    """The chosen peer's index, and the probability with which it was chosen."""

    peer: int
    propensity: float


def explore(reading: Reading, rng: np.random.Generator, draws: int = 64) -> Exploration:
    """Posterior (Thompson) sampling: a peer is chosen as often as it is likely to be the best.

    The propensity is estimated from `draws` draws, of which the first decides.
    """
    n = reading.effective + reading.pseudo
    samples = rng.beta(reading.prob * n, (1.0 - reading.prob) * n, size=(draws, len(n)))
    winners = samples.argmax(axis=1)
    return Exploration(int(winners[0]), float((winners == winners[0]).mean()))
