"""What of M_pφ the steering starts from: a read that needs no language model and no fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sigma_mem.events import FloatArray
from sigma_mem.train.episodes import Episode, EpisodeSettings, IntArray, draw_episode

__all__ = ["drawn_among", "start_reading"]


def drawn_among(
    labels: FloatArray, domains: IntArray, among: IntArray, settings: EpisodeSettings, *seed: int
) -> Episode:
    """Draw an episode from some events of a stream; equal seeds give equal episodes."""
    drawn = draw_episode(labels[among], domains[among], settings, np.random.default_rng(seed))
    return replace(drawn, events=among[drawn.events])


def start_reading(readouts: Sequence[Tensor]) -> FloatArray:
    """w of the read that P starts from: the constant coordinate of M_pφ, in units of its spread.

    It weighs every past event by its likeness to the present one, and by nothing else. A w fitted to labels
    weighs events by their φ as well, and was worse on events that it had not seen.

    Parameters
    ----------
    readouts : sequence of (n, S, rank) tensors
        M_pφ of contested events; the number of seats may differ.

    Returns
    -------
    (rank,)
        The standard deviation of wᵀr within an event is 1 on average, so that a gain g means a shift of
        about g median norms.
    """
    spread = torch.cat([r[..., -1].std(dim=1) for r in readouts]).mean().clamp_min(1e-12)
    w = np.zeros(readouts[0].shape[-1])
    w[-1] = 1.0 / float(spread)
    return w
