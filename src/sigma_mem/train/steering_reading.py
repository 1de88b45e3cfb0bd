"""w such that wᵀM_pφ tells right peers from wrong ones: a fit that needs no language model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sigma_mem.events import FloatArray
from sigma_mem.train.episodes import Episode, EpisodeSettings, IntArray, draw_episode
from sigma_mem.train.steering_loss import listwise

__all__ = ["drawn_among", "fit_reading"]


def drawn_among(
    labels: FloatArray, domains: IntArray, among: IntArray, settings: EpisodeSettings, *seed: int
) -> Episode:
    """Draw an episode from some events of a stream; equal seeds give equal episodes."""
    drawn = draw_episode(labels[among], domains[among], settings, np.random.default_rng(seed))
    return replace(drawn, events=among[drawn.events])


def fit_reading(batches: list[tuple[Tensor, Tensor]], *, penalty: float = 1e-3) -> FloatArray:
    """Fit w by the listwise loss on wᵀr, and scale it so that wᵀr differs by 1 between peers.

    Parameters
    ----------
    batches : list of ((n, S, rank), (n, S)) tensors
        Readouts M_pφ of contested events and who was right; the number of seats may differ.
    penalty
        Ridge penalty, in units in which readouts have variance 1.

    Returns
    -------
    (rank,)
        The standard deviation of wᵀr within an event is 1 on average, so that a gain g means a shift of
        about g median norms.
    """
    rank = batches[0][0].shape[-1]
    spread = torch.cat([_within(r).reshape(-1, rank) for r, _ in batches]).std(dim=0).clamp_min(1e-8)
    w = torch.zeros(rank, requires_grad=True)
    search = torch.optim.LBFGS([w], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        search.zero_grad()
        losses = [listwise((r / spread) @ w, right) for r, right in batches]
        loss = torch.cat(losses).mean() + penalty * w.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    search.step(closure)  # type: ignore[no-untyped-call]
    found = (w / spread).detach()
    scale = torch.cat([_within(r @ found).std(dim=1) for r, _ in batches]).mean().clamp_min(1e-12)
    return (found / scale).double().numpy()


def _within(values: Tensor) -> Tensor:
    """Values by seat, less their mean over the seats of the event."""
    return values - values.mean(dim=1, keepdim=True)
