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

Where the stream has two domains or more, φ begins with the kinds of `sigma_mem.train.kinds`: the domains
as they are told from words. How far they are mixed (V) is learned through the same memory.

Every chunk has its own order, a random subset of peers, and often (response, label) permuted across
peers per domain, as the counterfactual attack does, so that no peer's identity can be learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike

import numpy as np

from sigma_mem.encode.base import Encoder
from sigma_mem.encode.learned import LearnedEncoder, features_of, log_prototypes
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream
from sigma_mem.train.checkpoint import save_checkpoint

__all__ = ["LearnedPhi", "PhiSettings", "save_phi", "train_phi"]


@dataclass(frozen=True, slots=True)
class PhiSettings:
    """How φ is fitted.

    Attributes
    ----------
    steps, chunk : int
        Gradient steps, and events per step.
    rate, weight_decay, dropout : float
        Of AdamW with one cycle; dropout is of the whitened features.
    components : int
        Directions of the embedding that W may use.
    specialists : int
        Made-up peers per step.
    contrast : float
        How much a specialist's chance differs between domains, as the spread of its log-odds.
    share : float
        Of φ² that goes to the kinds, where there are any; the rest goes to the prototypes.
    word_penalty, feature_penalty : float
        Of the weights that tell domains from words and from whitened features.
    listwise : float
        Weight of the recorded peers' cross-entropy beside the specialists'.
    permute : float
        Share of steps in which peers are permuted per domain.
    gamma, strength : float
        Of the memory that will be read (γ, κ).
    """

    steps: int = 150
    chunk: int = 1024
    rate: float = 0.01
    weight_decay: float = 0.01
    dropout: float = 0.4
    components: int = 64
    specialists: int = 8
    contrast: float = 1.5
    listwise: float = 0.5
    permute: float = 0.5
    gamma: float = 0.9997
    strength: float = 5.0
    share: float = 0.8
    word_penalty: float = 0.05
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
    stream: Stream,
    base: Encoder,
    settings: PhiSettings | None = None,
    report: Callable[[str, int, int], None] | None = None,
) -> LearnedPhi:
    """Fit φ on a stream, over a frozen base encoder.

    Parameters
    ----------
    stream : Stream
        With labels of at least two peers, and 64 events or more.
    base : Encoder
        Its embedding is the input; a nonnegative φ of it is where the fit starts.
    report : callable
        Of (what, done, total), for progress.
    """
    from sigma_mem.center.extra import require_center

    require_center(("torch", "safetensors"))
    from sigma_mem.train.kinds import fit_kinds, kinds_of
    from sigma_mem.train.phi_fit import fit

    settings = settings or PhiSettings()
    if len(stream) < 64 or len(stream.peers) < 2:
        raise InputError(
            f"the stream has {len(stream)} events and {len(stream.peers)} peers; expected 64 and 2 or more"
        )
    say = report or (lambda what, done, total: None)
    questions = [event.question for event in stream]
    h, phi = features_of(base, questions)
    mean, whiten = whitening(h, settings.components)
    z = (h - mean) @ whiten
    nonnegative = bool((phi >= 0).all())
    domains = kinds_of([event.domain for event in stream])
    penalties = (settings.word_penalty, settings.feature_penalty)
    kinds = fit_kinds(questions, z, domains, penalties, say) if domains.max() > 0 else None
    fitted = fit(
        z,
        log_prototypes(phi) if nonnegative else np.zeros_like(phi),
        np.zeros((len(h), 0)) if kinds is None else kinds.logits,
        stream.labels(),
        domains,
        settings,
        start=0.0 if nonnegative else 1.0,
        say=say,
    )
    arrays = {
        "mean": mean,
        "whiten": whiten,
        "W": fitted.W,
        "bias": fitted.bias,
        "scale": np.array([fitted.scale if nonnegative else 0.0]),
    }
    if kinds is not None:  # V is folded into what it mixes
        arrays["words"], arrays["idf"] = kinds.words.keys, kinds.words.idf
        arrays["words_W"] = kinds.words_W @ fitted.V
        arrays["kinds_W"] = kinds.features_W @ fitted.V
        arrays["kinds_bias"] = kinds.bias @ fitted.V + fitted.kinds_bias
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
        "first_loss": float(np.mean(fitted.losses[:10])),
        "last_loss": float(np.mean(fitted.losses[-10:])),
    }
    return LearnedPhi(LearnedEncoder(base, arrays), arrays, fitted.losses, about)


def save_phi(learned: LearnedPhi, path: str | PathLike[str]) -> None:
    """Write arrays and description as safetensors, whole or not at all."""
    save_checkpoint(str(path), "phi", learned.arrays, learned.about)


def whitening(h: FloatArray, components: int) -> tuple[FloatArray, FloatArray]:
    """Mean (d,) and map (d, k) that give the k leading directions of h variance 1."""
    mean = h.mean(axis=0)
    _, singular, directions = np.linalg.svd(h - mean, full_matrices=False)
    keep = min(components, int((singular > 1e-8 * singular[0]).sum()))
    return mean, directions[:keep].T / singular[:keep] * np.sqrt(len(h))
