"""The default encoder: what kind of question it is, from static token vectors, without a network.

    z = unit(whiten(h)),   π = softmax(W z + b) over 63 kinds,   φ = unit([√π ; const])

h is a mean of WordLlama's token vectors, which are English: a prompt in another language is first put into
English words by `sigma_mem.encode.glossary`, and a digit counts less than a word. Mean, whitening, W and b
were fitted once, on the prompts of `sigma_mem.encode.reference` and `sigma_lab.encode.everyday`;
``python -m sigma_lab.encode.fit`` does it again.

The memory's kernel is (φ·φ′)². With φ = unit([whiten(h) ; const]) it is flat: two unrelated questions share
up to a quarter of their weight. √π is nonnegative and of norm 1, so two questions of one kind share nearly
everything and two kinds nearly nothing, at the same rank.
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

from sigma_mem.encode.base import as_texts, norms, root_softmax, unit
from sigma_mem.encode.glossary import in_english
from sigma_mem.errors import MissingExtraError
from sigma_mem.events import FloatArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer


CONST = 0.125  # carries a peer's overall competence in the linear readout, and hardly blurs the kernel
_DIGIT = 0.5  # of a word's weight: every digit is a token
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class StaticEncoder:
    """φ from kinds of questions; loads on first use."""

    name = "static"
    version = "1"
    rank = 64

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        return project(self.embed(texts), **fitted(f"static-{self.version}"))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """h of every text, before whitening, shape (n, 256): a mean of its token vectors, 0 without any."""
        return token_means([in_english(text) for text in as_texts(texts)])


def token_means(texts: Sequence[str], digit: float = _DIGIT) -> FloatArray:
    """Means of WordLlama's token vectors, digits with this weight; 0 for a text without tokens."""
    tokenizer, vectors, is_digit = _weights()
    out = np.zeros((len(texts), vectors.shape[1]))
    if len(texts) == 1:  # encode_batch starts threads
        encodings = [tokenizer.encode(texts[0], add_special_tokens=False)]
    else:
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    for row, encoding in zip(out, encodings, strict=True):
        ids = np.array(encoding.ids, dtype=np.intp)
        if not len(ids):
            continue
        # float16 rows are summed in float32: quicker, and exact to 1e-6.
        rows = vectors[ids].astype(np.float32)
        if digit == 1.0:
            row[:] = rows.mean(axis=0)
        else:
            weight = 1.0 - (1.0 - digit) * is_digit[ids]
            row[:] = weight.astype(np.float32) @ rows / weight.sum()
    return out


def project(
    h: FloatArray, mean: FloatArray, whiten: FloatArray, W: FloatArray, bias: FloatArray
) -> FloatArray:
    """φ of embeddings h (n, d), with mean (d,), whiten (d, k), W (k, rank − 1) and bias (rank − 1,)."""
    phi = np.full((len(h), len(bias) + 1), CONST)
    phi[:, :-1] = root_softmax(direction(h, mean, whiten) @ W + bias)
    return unit(phi)


def direction(h: FloatArray, mean: FloatArray, whiten: FloatArray) -> FloatArray:
    """unit(whiten(h)); zero where a text has no tokens, of which nothing can be said."""
    z = (h - mean) @ whiten
    z /= np.maximum(norms(z), 1e-12)
    z[~h.any(axis=1)] = 0.0
    return z


@cache
def _weights() -> tuple[Tokenizer, NDArray[np.float16], NDArray[np.bool_]]:
    """Tokenizer and token vectors of WordLlama, mapped into memory, and which tokens are digits.

    They are read straight from the package's folder: importing ``wordllama`` configures the root logger
    and takes longer than reading its two files. MissingExtraError where they are absent.
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
    digits = np.zeros(shape[0], dtype=np.bool_)
    digits[[tokenizer.get_vocab()[digit] for digit in "0123456789"]] = True
    vectors = np.memmap(folder / _WEIGHTS, dtype="<f2", mode="r", offset=start, shape=shape)
    return tokenizer, vectors.view(np.ndarray), digits  # a plain array is quicker to index


@cache
def fitted(name: str) -> dict[str, FloatArray]:
    """The arrays of a file that `sigma_lab.encode.fit` wrote."""
    path = resources.files(__package__).joinpath(f"data/{name}.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name].astype(np.float64) for name in ("mean", "whiten", "W", "bias")}
