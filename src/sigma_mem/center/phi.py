"""φ with a center: φ = unit([unit(W·whiten(h)); const]), h the features of a question.

Features are the center's own hidden states, or the embedding of any encoder of `sigma_mem.encode`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sigma_mem.center.batches import by_length, pad_ids
from sigma_mem.center.blocks import block_input
from sigma_mem.center.center import Center
from sigma_mem.center.checkpoint import read_arrays, write_arrays
from sigma_mem.center.errors import CheckpointError, SteeringMismatchError
from sigma_mem.encode import Encoder, unit
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

# From the states (T, d) of a question's tokens to one vector (d,).
POOLINGS: Mapping[str, Callable[[Any], Any]] = {
    "mean": lambda states: states.mean(dim=0),
    "last": lambda states: states[-1],
    "max": lambda states: states.amax(dim=0),
}


class Features(Protocol):
    """Turns questions into rows of numbers, under a name that changes whenever the numbers do."""

    name: str

    def features(self, texts: Sequence[str]) -> FloatArray:
        """(n, D) float64, finite, not yet whitened."""


class EncoderFeatures:
    """What an encoder of `sigma_mem.encode` makes of a text: its embedding if it has one, else its φ."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.name = encoder, f"{encoder.name}/{encoder.version}"

    def features(self, texts: Sequence[str]) -> FloatArray:
        """(n, D) embeddings, or φ."""
        embed: Callable[[Sequence[str]], FloatArray] = getattr(self.encoder, "embed", self.encoder.encode)
        return np.asarray(embed(texts), dtype=np.float64)


class CenterFeatures:
    """Mean hidden state of the question alone, at the input of an early block of the frozen center.

    The first token is an attention sink a hundred times longer than the others: with it in the mean, all
    questions look alike, so it is left out. Early blocks know the subject of a question best and cost
    least: on SmolLM2 a linear probe finds the domain of an MMLU-Pro question in 80 %, 83 % and 82 % of the
    cases at blocks 4, 8 and 12 of 30, against 71 % from the static embedding. The block is ⌊L/4⌋ by default.
    Questions longer than ``tokens`` are cut in the middle: the subject shows at the start, the options stand
    at the end.
    """

    def __init__(
        self, center: Center, *, tokens: int = 80, block: int | None = None, pooling: str = "mean"
    ) -> None:
        n_blocks = len(center.decoder.blocks)
        if tokens < 4:
            raise InputError(f"tokens is {tokens}; expected at least 4")
        if pooling not in POOLINGS:
            raise InputError(f"pooling is {pooling!r}; expected one of {', '.join(POOLINGS)}")
        if block is not None and not 0 <= block < n_blocks:
            raise InputError(f"block is {block}; expected 0 … {n_blocks - 1}, the center's blocks")
        self.center, self.tokens, self.pooling = center, tokens, pooling
        self.block = max(n_blocks // 4, 1) if block is None else block
        suffix = "" if pooling == "mean" else f"-{pooling}"
        self.name = f"center/{center.fingerprint}/{self.block}/{tokens}{suffix}"

    def features(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) means over the question's tokens, or their maxima, or the last token's state."""
        pool = POOLINGS[self.pooling]
        ids = [self._ids(text) for text in texts]
        out = np.zeros((len(ids), self.center.hidden))
        for batch in by_length([len(row) for row in ids], self.center.max_tokens):
            padded = pad_ids([ids[i] for i in batch], self.center.device)
            states = block_input(self.center.decoder, self.block, padded)
            for row, i in zip(states, batch, strict=True):
                out[i] = pool(row[1 : len(ids[i])].double()).cpu().numpy()
        return out

    def _ids(self, text: str) -> list[int]:
        tokenizer: Any = self.center.writer.tokenizer
        # The first token is given away to the sink, whatever it is.
        sink = next((i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None), 0)
        ids = self.center.writer.encode(text) or [sink]
        if len(ids) > self.tokens:
            tail = self.tokens // 3
            ids = ids[: self.tokens - tail] + ids[-tail:]
        return [int(sink), *ids]


def cached_features(
    source: Features,
    texts: Sequence[str],
    folder: str | Path | None,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    chunk: int = 64,
    save_every: int = 16,
) -> FloatArray:
    """(n, D) features of ``texts``, computed once and kept in one file of ``folder`` (if any) per source.

    ``progress`` is called with (done, total) of the missing ones; they are saved every few chunks, so that a
    kill loses little.
    """
    if not texts:
        return source.features(texts)
    keys = [hashlib.sha256(text.encode()).digest()[:16] for text in texts]
    short = hashlib.sha256(source.name.encode()).hexdigest()[:24]
    file = None if folder is None else Path(folder) / f"features-{short}.safetensors"
    known = {} if file is None else _known_features(file)
    todo = list({key: text for key, text in zip(keys, texts, strict=True) if key not in known}.items())
    for count, start in enumerate(range(0, len(todo), chunk), start=1):
        part = todo[start : start + chunk]
        rows = source.features([text for _, text in part])
        known.update((key, row) for (key, _), row in zip(part, rows, strict=True))
        if file is not None and (start + chunk >= len(todo) or count % save_every == 0):
            names = np.frombuffer(b"".join(known), dtype=np.uint8).reshape(-1, 16)
            write_arrays(file, {"keys": names, "features": np.stack(list(known.values()))}, {})
        progress(min(start + chunk, len(todo)), len(todo))
    return np.stack([known[key] for key in keys])


def _known_features(file: Path) -> dict[bytes, FloatArray]:
    try:
        found, _ = read_arrays(file, "cache of features", "sigma-mem")
        return {key.tobytes(): row for key, row in zip(found["keys"], found["features"], strict=True)}
    except (InputError, CheckpointError, KeyError, ValueError):
        return {}  # absent or damaged: computed again


@dataclass(frozen=True, slots=True)
class PhiMap:
    """From features h to φ.

    Without the constant coordinate the linear readout M_pφ could not carry a peer's overall competence,
    and without whitening every question would point in one direction.
    """

    mean: FloatArray  # (D,)
    whiten: FloatArray  # (K, D), rows that take h − mean to uncorrelated coordinates of variance 1
    weight: FloatArray  # W, (rank − 1, K)
    const: float  # the constant coordinate, next to a unit vector

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        return len(self.weight) + 1

    def __call__(self, features: FloatArray) -> FloatArray:
        """(n, D) features → (n, rank) unit rows."""
        if features.ndim != 2 or features.shape[1] != len(self.mean):
            raise InputError(f"features have shape {features.shape}; expected (rows, {len(self.mean)})")
        rows = (features - self.mean) @ self.whiten.T @ self.weight.T
        rows /= np.linalg.norm(rows, axis=1, keepdims=True).clip(min=1e-12)
        return unit(np.hstack([rows, np.full((len(rows), 1), self.const)]))

    def arrays(self) -> dict[str, FloatArray]:
        """Everything, under the names of a checkpoint."""
        return {f"phi.{field.name}": np.atleast_1d(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> PhiMap:
        """The inverse of `arrays`."""
        mean, whiten, weight, const = (arrays[f"phi.{field.name}"] for field in fields(cls))
        return cls(mean, whiten, weight, const.item())


class CenterEncoder:
    """An encoder for `SigmaMem`: features of a frozen source, usually the center itself, then a map to φ.

    A steering checkpoint brings the one that was learned with it (`open_checkpoint`). The map was learned on
    features of the name ``expected``; empty is not checked.
    """

    def __init__(self, source: Features, phi: PhiMap, *, expected: str = "") -> None:
        if expected not in ("", source.name):
            raise SteeringMismatchError(
                f"the checkpoint's φ was learned on features {expected}, got {source.name}; "
                "use that model and encoder, or train a steering for this one"
            )
        self.source, self.phi, self.rank = source, phi, phi.rank
        self.name = f"learned on {source.name}"
        digest = hashlib.sha256()
        for name, value in sorted(phi.arrays().items()):
            digest.update(name.encode() + np.ascontiguousarray(value, dtype="<f8").tobytes())
        self.version = digest.hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        return self.phi(self.source.features(texts))
