"""The default encoder: what kind of question it is, from static token vectors, without a network.

    z = unit(Σ w_i t_i / Σ w_i),   π = softmax(W z + b) over 63 kinds,   φ = unit([√π ; const])

t_i are WordLlama's token vectors, centred and whitened. They are English: a prompt in another language is
first put into English words by `sigma_mem.encode.glossary`. A digit weighs half as much as another token.
Whitening, W and b were fitted once, on the prompts of `sigma_lab.encode.reference` and
`sigma_lab.encode.everyday`; ``python -m sigma_lab.encode.fit`` does it again, into ``data``.

The memory's kernel is (φ·φ′)². With φ = unit([z ; const]) it is flat: two unrelated questions share
up to a quarter of their weight. √π is nonnegative and of norm 1, so two questions of one kind share nearly
everything and two kinds nearly nothing, at the same rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigma_mem.encode.base import as_texts, norms, root_softmax, unit
from sigma_mem.encode.glossary import in_english
from sigma_mem.events import FloatArray

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

CONST = 0.125  # carries a peer's overall competence in the linear readout, and hardly blurs the kernel
DIGIT = 0.5  # of a word's weight: every digit is a token
DATA = Path(__file__).parent / "data"


class StaticEncoder:
    """φ from kinds of questions; loads on first use."""

    name = "static"
    version = "1"
    rank = 64

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        arrays = fitted(f"static-{self.version}")
        return kinds(self.embed(texts), arrays["W"], arrays["bias"])

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """z of every text before it is scaled, shape (n, 80); 0 for a text without tokens."""
        return token_means([in_english(text) for text in as_texts(texts)], _token_vectors(self.version))


def token_means(texts: Sequence[str], vectors: NDArray[np.float16], digit: float = DIGIT) -> FloatArray:
    """Means of the vectors of a text's tokens, digits with this weight; 0 for a text without tokens."""
    tokenizer, is_digit = _tokenizer()
    out = np.zeros((len(texts), vectors.shape[1]))
    for row, text in zip(out, texts, strict=True):
        ids = np.array(tokenizer.encode(text), dtype=np.intp)
        if len(ids):
            weight = 1.0 - (1.0 - digit) * is_digit[ids]
            # float16 rows are summed in float32: quicker, and exact to 1e-6.
            row[:] = weight.astype(np.float32) @ vectors[ids].astype(np.float32) / weight.sum()
    return out


def kinds(z: FloatArray, W: FloatArray, bias: FloatArray) -> FloatArray:
    """φ of whitened vectors z (n, k), with W (k, rank − 1) and bias (rank − 1,)."""
    phi = np.full((len(z), len(bias) + 1), CONST)
    phi[:, :-1] = root_softmax(z / np.maximum(norms(z), 1e-12) @ W + bias)
    return unit(phi)


@cache
def _tokenizer() -> tuple[SentencePieceProcessor, NDArray[np.bool_]]:
    """WordLlama's tokenizer, and which of its tokens are digits."""
    from sentencepiece import SentencePieceProcessor

    tokenizer = SentencePieceProcessor(model_file=str(DATA / "tokens.model"))
    digits = np.zeros(tokenizer.get_piece_size(), dtype=np.bool_)
    digits[[tokenizer.piece_to_id(digit) for digit in "0123456789"]] = True
    return tokenizer, digits


@cache
def _token_vectors(version: str) -> NDArray[np.float16]:
    """The whitened vector of every token, mapped into memory; as a plain array it is quicker to index."""
    vectors: NDArray[np.float16] = np.load(DATA / f"static-{version}-tokens.npy", mmap_mode="r")
    return vectors.view(np.ndarray)


@cache
def fitted(name: str) -> dict[str, FloatArray]:
    """The arrays of a file that `sigma_lab.encode.fit` wrote."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as arrays:
        return {array: arrays[array].astype(np.float64) for array in arrays.files}
