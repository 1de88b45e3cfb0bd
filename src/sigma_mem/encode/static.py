"""The default encoder: what a question is about, from static token vectors, without a network.

    z = unit(whiten(h)),   π = softmax(W z + b) over 63 subjects,   φ = unit([√π ; const])

h is the mean of WordLlama's token vectors. Mean, whitening, W and b were fitted once, on the prompts of
``sigma_mem.encode.reference``; ``python -m sigma_mem.encode.fit`` does it again.

The memory's kernel is (φ·φ′)². With φ = unit([whiten(h) ; const]) it is flat: two unrelated questions share
up to a quarter of their weight. √π is nonnegative and of norm 1, so two questions of one subject share nearly
everything and two subjects nearly nothing, at the same rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

import numpy as np

from sigma_mem.encode.base import unit
from sigma_mem.encode.wordllama import TokenVectors
from sigma_mem.events import FloatArray

__all__ = ["StaticEncoder"]

CONST = 0.125  # carries a peer's overall competence in the linear readout, and hardly blurs the kernel
RANK = 64


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
    """φ of embeddings.

    Parameters
    ----------
    h : array (n, d)
    mean : array (d,)
    whiten : array (d, k)
    W : array (k, rank − 1)
    bias : array (rank − 1,)
    """
    logits = direction(h, mean, whiten) @ W + bias
    # √softmax: half the exponent. Shifted by the maximum so that nothing overflows.
    root = unit(np.exp(0.5 * (logits - logits.max(axis=1, keepdims=True))))
    return unit(np.column_stack([root, np.full(len(h), CONST)]))


def direction(h: FloatArray, mean: FloatArray, whiten: FloatArray) -> FloatArray:
    """unit(whiten(h)); zero where a text has no tokens, of which nothing can be said."""
    z = (h - mean) @ whiten
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    z[~h.any(axis=1)] = 0.0
    return z


@cache
def _vectors() -> TokenVectors:
    return TokenVectors.load()


@cache
def _fitted() -> dict[str, FloatArray]:
    path = resources.files(__package__).joinpath("data/static.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name].astype(np.float64) for name in ("mean", "whiten", "W", "bias")}
