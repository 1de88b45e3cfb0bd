"""Stage 1, without the language model: a φ under which what the center can be told finds the right peers.

W starts from the directions that tell the stream's domains apart (a ridge regression), because a peer's
reliability differs by domain before anything else; then cross-entropy on the linear read of M_pφ that the
steering starts from (`memory_scores`), in parallel form over whole episodes, refines it for as long as
held-out events agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sigma_mem.center.learned import PhiMap
from sigma_mem.events import FloatArray
from sigma_mem.train.episodes import Episode, EpisodeSettings, IntArray
from sigma_mem.train.steering_loss import best_slope, listwise
from sigma_mem.train.steering_memory import memory_scores
from sigma_mem.train.steering_reading import drawn_among

__all__ = ["PhiFit", "PhiSettings", "fit_phi", "phi_of", "start_map"]


@dataclass(frozen=True, slots=True)
class PhiSettings:
    """How stage 1 runs.

    Attributes
    ----------
    rank : int | None
        Dimension of φ; None is one coordinate per domain and the constant, or 33 with one domain only.
    coordinates : int
        Principal coordinates that whitening keeps.
    const : float
        The constant coordinate, beside a unit vector.
    shrink : float
        Ridge penalty of the start, in mean variances of the features.
    steps, rate, patience : int, float, int
        Adam steps, learning rate of W, and checks without progress before it ends.
    """

    rank: int | None = None
    coordinates: int = 384
    const: float = 0.3
    shrink: float = 0.1
    steps: int = 100
    rate: float = 1e-4
    patience: int = 3


@dataclass(frozen=True, slots=True)
class PhiFit:
    """A learned φ, and (step, training loss, held-out loss) as it went."""

    phi: PhiMap
    history: tuple[tuple[int, float, float], ...]


def start_map(features: FloatArray, domains: IntArray, settings: PhiSettings) -> PhiMap:
    """Whitening, and W from the directions that tell domains apart.

    Where there are fewer domains than coordinates, or only one, principal coordinates fill the rest.
    """
    mean = features.mean(axis=0)
    _, spread, axes = np.linalg.svd(features - mean, full_matrices=False)
    kept = int(min(settings.coordinates, (spread > 1e-9 * spread[0]).sum()))
    whiten = axes[:kept] / (spread[:kept, None] / np.sqrt(len(features)))
    x = (features - mean) @ whiten.T
    n_domains = int(domains.max()) + 1
    rank = settings.rank or (n_domains + 1 if n_domains > 1 else min(kept, 32) + 1)
    weight = np.zeros((rank - 1, kept))
    if n_domains > 1:
        target = np.eye(n_domains)[domains] - np.bincount(domains) / len(domains)
        # Ridge regression: in whitened coordinates it only damps those of small variance.
        variance = np.square(spread[:kept])
        damped = variance / (variance + settings.shrink * variance.mean())
        ridge = (x.T @ target / len(x) * damped[:, None]).T
        weight[: min(rank - 1, n_domains)] = ridge[: rank - 1]
    filled = min(n_domains, rank - 1) if n_domains > 1 else 0
    rest = min(rank - 1 - filled, kept)
    # Beside domains the principal coordinates come in faintly: they are there for W to grow into.
    weight[filled : filled + rest, :rest] = np.eye(rest) * (0.01 if filled else 1.0)
    length = float(np.linalg.norm(x @ weight.T, axis=1).mean())
    return PhiMap(mean, whiten, weight / max(length, 1e-12), settings.const)


def phi_of(x: Tensor, weight: Tensor, const: float) -> Tensor:
    """`PhiMap` on whitened features, for autograd: unit([unit(W·x); const])."""
    rows = functional.normalize(x @ weight.T, dim=1)
    whole = torch.cat([rows, rows.new_full((len(rows), 1), const)], dim=1)
    return functional.normalize(whole, dim=1)


def fit_phi(
    features: FloatArray,
    labels: FloatArray,
    domains: IntArray,
    held_out: IntArray,
    *,
    gamma: float,
    seed: int,
    settings: PhiSettings | None = None,
    episodes: EpisodeSettings | None = None,
) -> PhiFit:
    """Learn φ on a training stream.

    Parameters
    ----------
    features : (N, D)
    labels : (N, P)
        ±1, NaN where there is none.
    held_out : int array
        Events that no gradient step sees; they decide when to stop.
    """
    settings, episodes = settings or PhiSettings(), episodes or EpisodeSettings()
    everything = np.arange(len(labels))
    train = np.setdiff1d(everything, held_out)
    start = start_map(features[train], domains[train], settings)
    x = torch.from_numpy((features - start.mean) @ start.whiten.T).float()
    weight = torch.from_numpy(start.weight).float().requires_grad_()
    checks = [drawn_among(labels, domains, everything, episodes, seed, 1, i) for i in range(4)]
    # A memory of the held-out events alone would be shorter than the ones that will be read.
    looks = [(e, e.contested(len(e.events) // 4, held_out)) for e in checks]
    looks = [(e, at) for e, at in looks if len(at)]
    scale = _start_scale(
        x, weight, start.const, drawn_among(labels, domains, train, episodes, seed, 8), gamma
    )
    adam = torch.optim.Adam(
        [{"params": [weight], "lr": settings.rate}, {"params": [scale], "lr": 3e-2}], betas=(0.9, 0.98)
    )
    best, waited, latest = (np.inf, start.weight), 0, np.nan
    history: list[tuple[int, float, float]] = []
    for step in range(settings.steps + 1):
        if step % 10 == 0:
            with torch.no_grad():
                losses = [_loss(x, weight, scale, start.const, *look, gamma).item() for look in looks]
            held = float(np.mean(losses)) if losses else np.inf
            waited = 0 if held < best[0] - 1e-4 else waited + 1
            if waited == 0:
                best = (held, weight.detach().double().numpy().copy())
            history.append((step, latest if step else held, held))
            if waited >= settings.patience:
                break
        episode = drawn_among(labels, domains, train, episodes, seed, 0, step)
        at = episode.contested(len(episode.events) // 8)
        if not len(at):
            continue
        loss = _loss(x, weight, scale, start.const, episode, at, gamma)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        latest = loss.item()
    return PhiFit(replace(start, weight=best[1]), tuple(history))


def _start_scale(x: Tensor, weight: Tensor, const: float, episode: Episode, gamma: float) -> Tensor:
    """Log of the slope that makes the score a log-odds, so that W need not learn it."""
    at = episode.contested(len(episode.events) // 8)
    if not len(at):
        return torch.zeros((), requires_grad=True)
    with torch.no_grad():
        slope, _ = best_slope([_scored(x, weight, const, episode, at, gamma)])
    return torch.tensor(math.log(slope), requires_grad=True)


def _loss(
    x: Tensor, weight: Tensor, scale: Tensor, const: float, episode: Episode, at: IntArray, gamma: float
) -> Tensor:
    score, right = _scored(x, weight, const, episode, at, gamma)
    return listwise(score * scale.exp(), right).mean()


def _scored(
    x: Tensor, weight: Tensor, const: float, episode: Episode, at: IntArray, gamma: float
) -> tuple[Tensor, Tensor]:
    phi = phi_of(x[torch.from_numpy(episode.events)], weight, const)
    written, places = torch.from_numpy(episode.written).float(), torch.from_numpy(at)
    return memory_scores(phi, written, places, gamma), torch.from_numpy(episode.labels[at] > 0)
