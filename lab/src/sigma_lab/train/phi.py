"""Stage 1: learn φ by cross-entropy on the memory's own score, without a language model.

The memory is unrolled in parallel form: with K_ts = γ^(t−1−s)(φ_s·φ_t)² for s < t,

    p̂ = (K r + κ m)/(K 1 + κ)           r ∈ {0, 1} right or wrong, m the peer's overall rate,

is what the memory would say of every peer just before every event of a chunk, and its gradient
reaches both φ_t and every φ_s. Two cross-entropies are added:

- on the recorded peers, listwise: the log of the softmax mass of logit p̂ on the peers that were
  right, on contested events (how hard a question is moves all peers alike and teaches nothing);
- on made-up specialists, whose chance of being right is drawn for every domain of the stream,
  pointwise. They stand for peers that nobody has seen yet, and keep 3,000 events from being learned
  by heart: with the recorded peers alone, held-out routing gets worse than where it started.

Where the stream has two domains or more, φ begins with the kinds of `sigma_lab.train.kinds`: the domains
as they are told from words. How far they are mixed (V) is learned through the same memory.

Every chunk has its own order, a random subset of peers, and often (response, label) permuted across
peers per domain, as the counterfactual attack does, so that no peer's identity can be learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sigma_lab.train.kinds import fit_kinds, kinds_of
from sigma_mem.center.checkpoint import save_checkpoint
from sigma_mem.center.threads import torch_threads
from sigma_mem.encode.base import Encoder, whitening
from sigma_mem.encode.learned import LearnedEncoder, features_of, log_prototypes
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

_MARGIN = 1e-3  # p̂ is kept this far from 0 and 1
_WARM = 8  # the first 1/8 of a chunk only fills the memory

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class PhiSettings:
    """How φ is fitted: by AdamW with one cycle."""

    steps: int = 150
    chunk: int = 1024  # events per step
    rate: float = 0.01
    weight_decay: float = 0.01
    dropout: float = 0.4  # of the whitened features
    components: int = 64  # directions of the embedding that W may use
    specialists: int = 8  # made-up peers per step
    contrast: float = 1.5  # spread of a specialist's log-odds over domains
    listwise: float = 0.5  # weight of the recorded peers' cross-entropy beside the specialists'
    permute: float = 0.5  # share of steps in which peers are permuted per domain
    gamma: float = 0.9997  # γ and κ of the memory that will be read
    strength: float = 5.0
    share: float = 0.8  # of φ² that goes to the kinds, where there are any; the rest goes to the prototypes
    word_penalty: float = 0.05  # of the weights that tell domains from words, and from whitened features
    feature_penalty: float = 100.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.chunk < 16 or self.components < 1:
            raise InputError(
                f"steps is {self.steps}, chunk {self.chunk}, components {self.components}; "
                "expected at least 1, 16 and 1"
            )
        if not 0.0 < self.share < 1.0:
            raise InputError(f"share is {self.share}; expected a number between 0 and 1, such as 0.8")


@dataclass(frozen=True, slots=True)
class LearnedPhi:
    """The fitted encoder, its arrays, the loss of every step, and what it was fitted on."""

    encoder: LearnedEncoder
    arrays: dict[str, FloatArray]
    losses: list[float]
    about: dict[str, object]


def train_phi(
    stream: Stream, base: Encoder, settings: PhiSettings | None = None, report: Progress | None = None
) -> LearnedPhi:
    """Fit φ on a stream, over a frozen base encoder; on one machine, equal seeds give equal bits.

    The base's embedding is the input; a nonnegative φ of it is where the fit starts. ``report`` is called
    with (what, done, total).
    """
    settings = settings or PhiSettings()
    if len(stream) < 64 or len(stream.peers) < 2:
        raise InputError(
            f"the stream has {len(stream)} events and {len(stream.peers)} peers; expected 64 and 2 or more"
        )
    progress: Progress = report or (lambda what, done, total: None)
    questions = [event.question for event in stream]
    h, phi = features_of(base, questions)
    mean, whiten = whitening(h, settings.components)
    z = (h - mean) @ whiten
    domains = kinds_of([event.domain for event in stream])
    # A base φ with negative coordinates is no start: its logits would lose the signs.
    starts = bool((phi >= 0).all())
    logits = log_prototypes(phi) if starts else np.zeros_like(phi)
    with torch_threads(1):
        penalties = (settings.word_penalty, settings.feature_penalty)
        kinds = fit_kinds(questions, z, domains, penalties, progress) if domains.max() > 0 else None
        told = np.zeros((len(h), 0)) if kinds is None else kinds.logits
        model, losses = _fit(z, logits, told, stream.labels(), domains, settings, starts, progress)
    found = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    scale = np.exp(found["log_scale"]) if starts else np.zeros(1)
    arrays = {"mean": mean, "whiten": whiten, "W": found["W"], "bias": found["bias"], "scale": scale}
    if kinds is not None:  # V is folded into what it mixes
        arrays["words"], arrays["idf"] = kinds.words.keys, kinds.words.idf
        arrays["words_W"] = kinds.words_W @ found["V"]
        arrays["kinds_W"] = kinds.features_W @ found["V"]
        arrays["kinds_bias"] = kinds.bias @ found["V"] + found["kinds_bias"]
        arrays["share"] = np.array([settings.share])
    about: dict[str, object] = {
        "base": base.name,
        "base_version": base.version,
        "stream": stream.name,
        "stream_sha256": stream.sha256,
        "events": len(stream),
        "peers": list(stream.peers),
        "settings": asdict(settings),
        "seed": settings.seed,
        "first_loss": float(np.mean(losses[:10])),
        "last_loss": float(np.mean(losses[-10:])),
    }
    return LearnedPhi(LearnedEncoder(base, arrays), arrays, losses, about)


def save_phi(learned: LearnedPhi, path: str | PathLike[str]) -> None:
    """Write arrays and description as one safetensors file."""
    save_checkpoint(str(path), "phi", learned.arrays, learned.about)


def parallel_prob(phi: Tensor, right: Tensor, gamma: float, strength: float) -> Tensor:
    """p̂ (T, P) of every peer before every event, in parallel form; differentiable in φ (T, rank).

    ``right`` (T, P) is 1 where a peer was right, 0 where it was wrong, NaN where there is no label.
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


class _PhiModel(torch.nn.Module):
    """φ of whitened features, base logits and the logits of kinds, of which there may be none.

    ``starts`` says that the base's own φ is the start: then W begins at zero, else at random.
    """

    def __init__(
        self, k: int, rank: int, n_kinds: int, share: float, starts: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        size = 0.0 if starts else 1.0 / k**0.5
        self.W = torch.nn.Parameter(size * torch.randn(k, rank, generator=generator))
        self.bias = torch.nn.Parameter(torch.zeros(rank))
        self.log_scale = torch.nn.Parameter(torch.zeros(1))
        self.V = torch.nn.Parameter(torch.eye(n_kinds))
        self.kinds_bias = torch.nn.Parameter(torch.zeros(n_kinds))
        self.log_shares = math.log(share), math.log(1.0 - share)

    def forward(self, z: Tensor, base: Tensor, kinds: Tensor) -> Tensor:
        """Of shape (T, rank), or (T, n_kinds + rank)."""
        log_phi = torch.log_softmax(self.log_scale.exp() * base + z @ self.W + self.bias, dim=1)
        if kinds.shape[1]:
            log_kinds = torch.log_softmax(kinds @ self.V + self.kinds_bias, dim=1)
            of_kinds, of_rest = self.log_shares
            log_phi = torch.cat((of_kinds + log_kinds, of_rest + log_phi), dim=1)
        return torch.exp(0.5 * log_phi)


def _fit(
    z: FloatArray,
    base_logits: FloatArray,
    kind_logits: FloatArray,
    labels: FloatArray,
    domains: NDArray[np.intp],
    settings: PhiSettings,
    starts: bool,
    progress: Progress,
) -> tuple[_PhiModel, list[float]]:
    """Fit on whitened features (T, k), base logits (T, rank), logits of kinds (T, n) and labels (T, P)."""
    rng = np.random.default_rng(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    features, base, told = (torch.tensor(x, dtype=torch.float32) for x in (z, base_logits, kind_logits))
    right = torch.tensor(np.where(np.isnan(labels), np.nan, labels > 0), dtype=torch.float32)
    model = _PhiModel(features.shape[1], base.shape[1], told.shape[1], settings.share, starts, generator)
    groups = [
        {"params": [model.W, model.bias, model.kinds_bias], "weight_decay": settings.weight_decay},
        {"params": [model.log_scale, model.V], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.rate)
    one_cycle = torch.optim.lr_scheduler.OneCycleLR
    cycle = one_cycle(optimizer, settings.rate, total_steps=settings.steps, pct_start=0.1)
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
        progress("learn φ", step + 1, settings.steps)
    return model, losses


def _loss(
    phi: Tensor, right: Tensor, domains: NDArray[np.intp], settings: PhiSettings, rng: np.random.Generator
) -> Tensor:
    loss = torch.zeros(())
    if settings.specialists and len(np.unique(domains)) > 1:
        skill = rng.normal(size=(int(domains.max()) + 1, settings.specialists))
        chance = (1.0 / (1.0 + np.exp(-settings.contrast * skill)))[domains]
        made_up = torch.tensor(rng.random(chance.shape) < chance, dtype=torch.float32)
        prob = parallel_prob(phi, made_up, settings.gamma, settings.strength)
        loss = loss + _pointwise(prob, torch.tensor(chance, dtype=torch.float32))
    if settings.listwise:
        peers = _peers(right, domains, settings.permute, rng)
        prob = parallel_prob(phi, peers, settings.gamma, settings.strength)
        loss = loss + settings.listwise * _listwise(prob, peers)
    return loss


def _peers(right: Tensor, domains: NDArray[np.intp], permute: float, rng: np.random.Generator) -> Tensor:
    """A random subset of the recorded peers (three or more), often permuted per domain."""
    n = right.shape[1]
    size = int(rng.integers(min(3, n), n + 1))
    chosen = right[:, torch.tensor(rng.permutation(n)[:size])]
    if rng.random() < permute:
        orders = np.stack([rng.permutation(size) for _ in range(int(domains.max()) + 1)])
        chosen = torch.gather(chosen, 1, torch.tensor(orders[domains]))
    return chosen


def _pointwise(prob: Tensor, chance: Tensor) -> Tensor:
    """Cross-entropy of p̂ against the chance that is known of a made-up peer: less noise than its label."""
    p = prob.clamp(_MARGIN, 1.0 - _MARGIN)[len(prob) // _WARM :]
    y = chance[len(chance) // _WARM :]
    return -(y * p.log() + (1.0 - y) * (1.0 - p).log()).mean()


def _listwise(prob: Tensor, right: Tensor) -> Tensor:
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
