"""The default encoder: what a question is about, from static token vectors, without a network.

    z = unit(whiten(h)),   π = softmax(W z + b) over 63 subjects,   φ = unit([√π ; const])

h is the mean of WordLlama's token vectors. Mean, whitening, W and b were fitted once, on the prompts of
`sigma_mem.encode.reference`; ``python -m sigma_mem.encode.fit`` does it again.

The memory's kernel is (φ·φ′)². With φ = unit([whiten(h) ; const]) it is flat: two unrelated questions share
up to a quarter of their weight. √π is nonnegative and of norm 1, so two questions of one subject share nearly
everything and two subjects nearly nothing, at the same rank.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import MissingExtraError
from sigma_mem.events import FloatArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer


CONST = 0.125  # carries a peer's overall competence in the linear readout, and hardly blurs the kernel
RANK = 64
WIDTH = 256  # of WordLlama's token vectors
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MAX_CHARACTERS = 8192  # of a text; what a question is about shows long before, and time stays bounded


class StaticEncoder:
    """φ from subjects; loads on first use.

    >>> StaticEncoder().encode(["What is 17 * 23?"]).shape
    (1, 64)
    """

    name = "static"
    version = "1"
    rank = RANK

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        return project(self.embed(texts), **_fitted())

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """h of every text, before whitening: shape (n, 256)."""
        return _vectors().embed(texts)


def project(
    h: FloatArray, mean: FloatArray, whiten: FloatArray, W: FloatArray, bias: FloatArray
) -> FloatArray:
    """φ of embeddings h (n, d), with mean (d,), whiten (d, k), W (k, rank − 1) and bias (rank − 1,)."""
    logits = direction(h, mean, whiten) @ W + bias
    # √softmax: half the exponent. Shifted by the maximum so that nothing overflows.
    root = np.exp(0.5 * (logits - logits.max(axis=1, keepdims=True)))
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    phi = np.column_stack([root, np.full(len(h), CONST)])
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    return phi


def direction(h: FloatArray, mean: FloatArray, whiten: FloatArray) -> FloatArray:
    """unit(whiten(h)); zero where a text has no tokens, of which nothing can be said."""
    z = (h - mean) @ whiten
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    z[~h.any(axis=1)] = 0.0
    return z


class TokenVectors:
    """Mean of the vectors of a text's tokens, from WordLlama's packaged weights.

    They are read straight from the package's folder: importing ``wordllama`` configures the root logger
    and takes longer than reading its two files.
    """

    def __init__(self, tokenizer: Tokenizer, vectors: NDArray[np.float16]) -> None:
        self._tokenizer = tokenizer
        self._vectors = vectors

    @classmethod
    def load(cls) -> TokenVectors:
        """Read the packaged weights; MissingExtraError where the package or its files are absent."""
        spec = find_spec("wordllama")
        folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
        if folder is None or not (folder / _WEIGHTS).is_file() or not (folder / _TOKENIZER).is_file():
            raise MissingExtraError(
                "the static encoder reads the weights of the package wordllama, which are not installed; "
                "pip install 'wordllama>=0.4', or use encoder='hashed', which needs numpy only"
            )
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(tokenizer, _matrix(folder / _WEIGHTS))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """h of every text, shape (n, 256); zero for a text without tokens."""
        out = np.zeros((len(texts), WIDTH))
        cut = [text[:_MAX_CHARACTERS] for text in texts]
        for row, encoding in zip(out, self._encode(cut), strict=True):
            if encoding:
                # float16 rows are summed in float32: quicker, and exact to 1e-6.
                row[:] = self._vectors[encoding].astype(np.float32).mean(axis=0)
        return out

    def _encode(self, texts: list[str]) -> list[list[int]]:
        if len(texts) == 1:  # encode_batch starts threads
            return [self._tokenizer.encode(texts[0], add_special_tokens=False).ids]
        return [e.ids for e in self._tokenizer.encode_batch(texts, add_special_tokens=False)]


def _matrix(path: Path) -> NDArray[np.float16]:
    """The one matrix of a safetensors file, mapped into memory."""
    with path.open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        about = json.loads(file.read(size))["embedding.weight"]
    start, _ = about["data_offsets"]
    rows, width = about["shape"]
    return np.memmap(path, dtype="<f2", mode="r", offset=8 + size + start, shape=(rows, width))


@cache
def _vectors() -> TokenVectors:
    return TokenVectors.load()


@cache
def _fitted() -> dict[str, FloatArray]:
    path = resources.files(__package__).joinpath("data/static.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name].astype(np.float64) for name in ("mean", "whiten", "W", "bias")}
