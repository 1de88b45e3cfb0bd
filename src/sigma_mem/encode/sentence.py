"""φ from any sentence-transformers model, behind the extra ``[sentence]``.

    φ = unit([R·unit(h − mean) ; const])

The mean is that of the model's own embeddings of some 260 prompts, so that φ does not collapse onto one
direction; R is a fixed Gaussian projection to rank − 1, which keeps inner products up to 1/√rank.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol, cast

import numpy as np

from sigma_mem.encode.base import as_texts, unit
from sigma_mem.encode.static import DATA
from sigma_mem.events import FloatArray
from sigma_mem.extras import require

_CONST = 0.5


class SentenceModel(Protocol):
    """What is needed of a sentence-transformers model."""

    def encode(self, sentences: list[str]) -> FloatArray:
        """Embeddings (n, d)."""


class SentenceEncoder:
    """φ from a sentence-transformers model, by hub name, local path, or as an object.

    ``name`` is what a memory records; it is needed if ``model`` is an object.
    """

    def __init__(
        self,
        model: str | SentenceModel = "sentence-transformers/all-MiniLM-L6-v2",
        name: str | None = None,
        rank: int = 64,
    ) -> None:
        self.rank = rank
        self.name = f"sentence:{name or model}"
        if isinstance(model, str):
            package = require("sentence_transformers", extra="sentence", purpose="the sentence encoder")
            model = cast(SentenceModel, package.SentenceTransformer(model))
        self._model = model
        self._mean = np.asarray(model.encode(typical_prompts()), dtype=np.float64).mean(axis=0)
        normal = np.random.default_rng(0).standard_normal((len(self._mean), rank - 1))
        self._projection = normal / np.sqrt(rank - 1)
        # Two models of one name differ in their embeddings, and so in this.
        self.version = f"1-{sha256(np.round(self._mean, 4).tobytes()).hexdigest()[:8]}"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        part = unit(self.embed(texts) - self._mean) @ self._projection
        return unit(np.column_stack([part, np.full(len(part), _CONST)]))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """h of every text."""
        known = as_texts(texts)
        if not known:
            return np.zeros((0, len(self._mean)))
        return np.asarray(self._model.encode(known), dtype=np.float64)


def typical_prompts() -> list[str]:
    """Prompts of many kinds, drawn by `sigma_lab.encode.reference`: enough for a mean."""
    found: list[str] = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))
    return found
