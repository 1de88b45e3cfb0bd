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

from sigma_mem.encode.base import root_softmax, unit
from sigma_mem.errors import MissingExtraError
from sigma_mem.events import FloatArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer


CONST = 0.125  # carries a peer's overall competence in the linear readout, and hardly blurs the kernel
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MAX_CHARACTERS = 8192  # of a text; what a question is about shows long before, and time stays bounded


class StaticEncoder:
    """φ from subjects; loads on first use."""

    name = "static"
    version = "1"
    rank = 64

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        return project(self.embed(texts), **_fitted())

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """h of every text, before whitening, shape (n, 256): the mean of its token vectors, 0 without any."""
        tokenizer, vectors = _weights()
        out = np.zeros((len(texts), vectors.shape[1]))
        cut = [text[:_MAX_CHARACTERS] for text in texts]
        if len(cut) == 1:  # encode_batch starts threads
            encodings = [tokenizer.encode(cut[0], add_special_tokens=False)]
        else:
            encodings = tokenizer.encode_batch(cut, add_special_tokens=False)
        for row, encoding in zip(out, encodings, strict=True):
            if encoding.ids:
                # float16 rows are summed in float32: quicker, and exact to 1e-6.
                row[:] = vectors[encoding.ids].astype(np.float32).mean(axis=0)
        return out


def project(
    h: FloatArray, mean: FloatArray, whiten: FloatArray, W: FloatArray, bias: FloatArray
) -> FloatArray:
    """φ of embeddings h (n, d), with mean (d,), whiten (d, k), W (k, rank − 1) and bias (rank − 1,)."""
    root = root_softmax(direction(h, mean, whiten) @ W + bias)
    return unit(np.column_stack([root, np.full(len(h), CONST)]))


def direction(h: FloatArray, mean: FloatArray, whiten: FloatArray) -> FloatArray:
    """unit(whiten(h)); zero where a text has no tokens, of which nothing can be said."""
    z = (h - mean) @ whiten
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    z[~h.any(axis=1)] = 0.0
    return z


@cache
def _weights() -> tuple[Tokenizer, NDArray[np.float16]]:
    """Tokenizer and token vectors of WordLlama, mapped into memory; MissingExtraError where they are absent.

    They are read straight from the package's folder: importing ``wordllama`` configures the root logger
    and takes longer than reading its two files.
    """
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
    with (folder / _WEIGHTS).open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        about = json.loads(file.read(size))["embedding.weight"]
    start, shape = 8 + size + about["data_offsets"][0], tuple(about["shape"])
    return tokenizer, np.memmap(folder / _WEIGHTS, dtype="<f2", mode="r", offset=start, shape=shape)


@cache
def _fitted() -> dict[str, FloatArray]:
    path = resources.files(__package__).joinpath("data/static.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name].astype(np.float64) for name in ("mean", "whiten", "W", "bias")}
