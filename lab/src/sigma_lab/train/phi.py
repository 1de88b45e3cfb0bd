"""Stage 1, without the language model: a φ under which what the center can get finds the right peers.

W starts from the directions that separate the stream's domains (a ridge regression), because a peer's
reliability differs by domain before anything else. Then cross-entropy on the linear read of M_pφ that the
steering starts from (`memory_scores`), in parallel form over whole episodes, refines it for as long as
held-out events agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sigma_lab.encode.fit import whitening
from sigma_lab.train.data import Episode, EpisodeSettings, IntArray, TrainingStream
from sigma_lab.train.objective import best_slope, listwise, memory_scores, phi_of
from sigma_mem.center.phi import PhiMap
from sigma_mem.events import FloatArray

History = tuple[tuple[int, float, float], ...]  # (step, training loss, held-out loss) as it went


@dataclass(frozen=True, slots=True)
class Stage1Settings:
    """How φ is learned."""

    rank: int | None = None  # None is one coordinate per domain and the constant, or 33 with one domain only
    coordinates: int = 384  # principal coordinates that whitening keeps
    const: float = 0.3  # the constant coordinate, next to a unit vector
    shrink: float = 0.1  # ridge penalty of the start, in mean variances of the features
    steps: int = 100
    rate: float = 1e-4  # Adam's, of W
    patience: int = 3  # checks without progress before it ends


def start_map(features: FloatArray, domains: IntArray, settings: Stage1Settings) -> PhiMap:
    """Whitening, and W from the directions that separate domains.

    If there are fewer domains than coordinates, or only one, principal coordinates fill the rest.
    """
    mean, whiten = whitening(features, settings.coordinates)
    x, kept = (features - mean) @ whiten, whiten.shape[1]
    n_domains = int(domains.max()) + 1
    rank = settings.rank or (n_domains + 1 if n_domains > 1 else min(kept, 32) + 1)
    weight = np.zeros((rank - 1, kept))
    filled = min(n_domains, rank - 1) if n_domains > 1 else 0
    if filled:
        target = np.eye(n_domains)[domains] - np.bincount(domains) / len(domains)
        # Ridge regression: in whitened coordinates it only damps those of small variance.
        variance = 1.0 / np.square(whiten).sum(axis=0)
        damped = variance / (variance + settings.shrink * variance.mean())
        weight[:filled] = (x.T @ target / len(x) * damped[:, None]).T[:filled]
    rest = min(rank - 1 - filled, kept)
    # With domains the principal coordinates come in faintly: they are there for W to grow into.
    weight[filled : filled + rest, :rest] = np.eye(rest) * (0.01 if filled else 1.0)
    length = float(np.linalg.norm(x @ weight.T, axis=1).mean())
    return PhiMap(mean, whiten.T, weight / max(length, 1e-12), settings.const)


def fit_phi(
    data: TrainingStream,
    *,
    gamma: float,
    seed: int,
    settings: Stage1Settings | None = None,
    episodes: EpisodeSettings | None = None,
) -> tuple[PhiMap, History]:
    """Learn φ, and report how it went."""
    settings, episodes = settings or Stage1Settings(), episodes or EpisodeSettings()
    start = start_map(data.features[data.train], data.domains[data.train], settings)
    x = torch.from_numpy((data.features - start.mean) @ start.whiten.T).float()
    weight = torch.from_numpy(start.weight).float().requires_grad_()

    def scored(episode: Episode, at: IntArray) -> tuple[Tensor, Tensor]:
        phi = phi_of(x[torch.from_numpy(episode.events)], weight, start.const)
        written = torch.from_numpy(episode.written).float()
        right = torch.from_numpy(episode.labels[at] > 0)
        return memory_scores(phi, written, torch.from_numpy(at), gamma), right

    def loss_of(episode: Episode, at: IntArray) -> Tensor:
        score, right = scored(episode, at)
        return listwise(score * scale.exp(), right).mean()

    # A memory of the held-out events alone would be shorter than the ones that will be read.
    everything = np.arange(len(data.labels))
    drawn = [data.draw(everything, episodes, seed, 1, i) for i in range(4)]
    held = [(e, at) for e in drawn if len(at := e.contested(len(e.events) // 4, data.held_out))]
    # The slope that makes the score a log-odds, so that W need not learn it.
    first = data.draw(data.train, episodes, seed, 8)
    at = first.contested(len(first.events) // 8)
    with torch.no_grad():
        slope = best_slope([scored(first, at)])[0] if len(at) else 1.0
    scale = torch.tensor(math.log(slope), requires_grad=True)
    groups = [{"params": [weight], "lr": settings.rate}, {"params": [scale], "lr": 3e-2}]
    adam = torch.optim.Adam(groups, betas=(0.9, 0.98))
    best_loss, best_weight, waited, latest = np.inf, start.weight, 0, np.nan
    history: list[tuple[int, float, float]] = []
    for step in range(settings.steps + 1):
        if step % 10 == 0:
            with torch.no_grad():
                held_loss = float(np.mean([loss_of(*one).item() for one in held])) if held else np.inf
            waited = 0 if held_loss < best_loss - 1e-4 else waited + 1
            if waited == 0:
                best_loss, best_weight = held_loss, weight.detach().double().numpy().copy()
            history.append((step, latest if step else held_loss, held_loss))
            if waited >= settings.patience:
                break
        episode = data.draw(data.train, episodes, seed, 0, step)
        at = episode.contested(len(episode.events) // 8)
        if not len(at):
            continue
        loss = loss_of(episode, at)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        latest = loss.item()
    return replace(start, weight=best_weight), tuple(history)
