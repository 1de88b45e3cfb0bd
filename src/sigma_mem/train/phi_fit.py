"""The torch part of learning φ: the parallel memory and its two cross-entropies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

if TYPE_CHECKING:
    from sigma_mem.train.phi import PhiSettings

__all__ = ["Fitted", "Model", "fit", "parallel_prob"]

_MARGIN = 1e-3  # p̂ is kept this far from 0 and 1
_WARM = 8  # the first 1/8 of a chunk only fills the memory


@dataclass(frozen=True, slots=True)
class Fitted:
    """W, bias and scale of the prototypes' logits, V and bias of the kinds', and the loss of every step."""

    W: FloatArray
    bias: FloatArray
    scale: float
    V: FloatArray
    kinds_bias: FloatArray
    losses: list[float]


def parallel_prob(phi: torch.Tensor, right: torch.Tensor, gamma: float, strength: float) -> torch.Tensor:
    """p̂ of every peer before every event, in parallel form; differentiable in φ.

    Parameters
    ----------
    phi : tensor (T, rank)
    right : tensor (T, P)
        1 right, 0 wrong, NaN where there is no label.
    """
    age = torch.arange(len(phi))
    gap = age[:, None] - 1 - age[None, :]
    decay = torch.where(gap >= 0, gamma ** gap.clamp(min=0).to(phi.dtype), torch.zeros(()))
    kernel = (phi @ phi.T).square() * decay  # γ^(t−1−s)(φ_s·φ_t)²
    known = ~torch.isnan(right)
    seen = known.to(phi.dtype)
    hits = torch.where(known, right, torch.zeros(()))
    # The peer's overall rate, itself shrunk to ½ by the same strength.
    overall = (decay @ hits + 0.5 * strength) / (decay @ seen + strength)
    return (kernel @ hits + strength * overall) / (kernel @ seen + strength)


class Model(torch.nn.Module):
    """φ of whitened features, base logits and the logits of kinds, which may be none (see encode.learned)."""

    def __init__(
        self, k: int, rank: int, n_kinds: int, share: float, start: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.W = torch.nn.Parameter(start / k**0.5 * torch.randn(k, rank, generator=generator))
        self.bias = torch.nn.Parameter(torch.zeros(rank))
        self.log_scale = torch.nn.Parameter(torch.zeros(1))
        self.V = torch.nn.Parameter(torch.eye(n_kinds))
        self.kinds_bias = torch.nn.Parameter(torch.zeros(n_kinds))
        self.log_shares = math.log(share), math.log(1.0 - share)

    def forward(self, z: torch.Tensor, base: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """Of shape (T, rank), or (T, n_kinds + rank)."""
        log_phi = torch.log_softmax(self.log_scale.exp() * base + z @ self.W + self.bias, dim=1)
        if kinds.shape[1]:
            log_kinds = torch.log_softmax(kinds @ self.V + self.kinds_bias, dim=1)
            of_kinds, of_rest = self.log_shares
            log_phi = torch.cat((of_kinds + log_kinds, of_rest + log_phi), dim=1)
        return torch.exp(0.5 * log_phi)


def fit(
    z: FloatArray,
    log_phi: FloatArray,
    kinds: FloatArray,
    labels: FloatArray,
    domains: NDArray[np.intp],
    settings: PhiSettings,
    start: float,
    say: Callable[[str, int, int], None],
) -> Fitted:
    """Fit on whitened features z (T, k), base logits (T, rank), logits of kinds (T, n) and labels (T, P).

    ``start`` is the size of the random start of W: 0 where the base's own φ is one.
    """
    rng = np.random.default_rng(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    features, base, told = (torch.tensor(x, dtype=torch.float32) for x in (z, log_phi, kinds))
    right = torch.tensor(np.where(np.isnan(labels), np.nan, labels > 0), dtype=torch.float32)
    model = Model(features.shape[1], base.shape[1], told.shape[1], settings.share, start, generator)
    groups = [
        {"params": [model.W, model.bias, model.kinds_bias], "weight_decay": settings.weight_decay},
        {"params": [model.log_scale, model.V], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.rate)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.rate, total_steps=settings.steps, pct_start=0.1
    )
    losses: list[float] = []
    for step in range(settings.steps):
        rows = rng.permutation(len(z))[: settings.chunk]
        kept = torch.rand(len(rows), features.shape[1], generator=generator) > settings.dropout
        phi = model(features[rows] * kept / (1.0 - settings.dropout), base[rows], told[rows])
        loss = _loss(phi, right[rows], domains[rows], settings, rng)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        cycle.step()
        losses.append(float(loss.detach()))
        say("learn φ", step + 1, settings.steps)
    found = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    return Fitted(
        W=found["W"],
        bias=found["bias"],
        scale=float(np.exp(found["log_scale"][0])),
        V=found["V"],
        kinds_bias=found["kinds_bias"],
        losses=losses,
    )


def _loss(
    phi: torch.Tensor,
    right: torch.Tensor,
    domains: NDArray[np.intp],
    settings: PhiSettings,
    rng: np.random.Generator,
) -> torch.Tensor:
    loss = torch.zeros(())
    if settings.specialists and len(np.unique(domains)) > 1:
        chance, made_up = _specialists(domains, settings.specialists, settings.contrast, rng)
        loss = loss + _pointwise(parallel_prob(phi, made_up, settings.gamma, settings.strength), chance)
    if settings.listwise:
        peers = _peers(right, domains, settings.permute, rng)
        prob = parallel_prob(phi, peers, settings.gamma, settings.strength)
        loss = loss + settings.listwise * _listwise(prob, peers)
    return loss


def _specialists(
    domains: NDArray[np.intp], n: int, contrast: float, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up peers: their chance of being right, drawn per domain, and whether they were right."""
    skill = rng.normal(size=(int(domains.max()) + 1, n))
    chance = (1.0 / (1.0 + np.exp(-contrast * skill)))[domains]
    right = rng.random(chance.shape) < chance
    return torch.tensor(chance, dtype=torch.float32), torch.tensor(right, dtype=torch.float32)


def _peers(
    right: torch.Tensor, domains: NDArray[np.intp], permute: float, rng: np.random.Generator
) -> torch.Tensor:
    """A random subset of the recorded peers (three or more), often permuted per domain."""
    n = right.shape[1]
    size = int(rng.integers(min(3, n), n + 1))
    chosen = right[:, torch.tensor(rng.permutation(n)[:size])]
    if rng.random() < permute:
        orders = np.stack([rng.permutation(size) for _ in range(int(domains.max()) + 1)])
        chosen = torch.gather(chosen, 1, torch.tensor(orders[domains]))
    return chosen


def _pointwise(prob: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of p̂ against the chance that is known of a made-up peer: less noise than its label."""
    p = prob.clamp(_MARGIN, 1.0 - _MARGIN)[len(prob) // _WARM :]
    y = chance[len(chance) // _WARM :]
    return -(y * p.log() + (1.0 - y) * (1.0 - p).log()).mean()


def _listwise(prob: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """−log of the softmax mass of logit p̂ on the peers that were right, over contested events."""
    known = ~torch.isnan(right)
    wins = torch.where(known, right, torch.zeros(()))
    total, asked = wins.sum(dim=1), known.sum(dim=1)
    contested = (total > 0) & (total < asked)
    contested[: len(prob) // _WARM] = False
    if not bool(contested.any()):
        return torch.zeros(())
    p = prob[contested].clamp(_MARGIN, 1.0 - _MARGIN)
    logit = torch.where(known[contested], torch.log(p / (1.0 - p)), torch.tensor(-torch.inf))
    mass = torch.log_softmax(logit, dim=1)
    return -torch.logsumexp(torch.where(wins[contested] > 0, mass, torch.tensor(-torch.inf)), dim=1).mean()
