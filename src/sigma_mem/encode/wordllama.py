"""WordLlama's packaged token vectors, read straight from its folder: no network, no import of the package.

Importing ``wordllama`` configures the root logger and takes longer than reading its two files.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import MissingExtraError
from sigma_mem.events import FloatArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["WIDTH", "TokenVectors"]

WIDTH = 256
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MAX_CHARACTERS = 8192  # of a text; what a question is about shows long before, and time stays bounded


class TokenVectors:
    """Mean of the vectors of a text's tokens."""

    def __init__(self, tokenizer: Tokenizer, vectors: NDArray[np.float16]) -> None:
        self._tokenizer = tokenizer
        self._vectors = vectors

    @classmethod
    def load(cls) -> TokenVectors:
        """Read the packaged weights.

        Raises
        ------
        MissingExtraError
            Where the package, or the files it ships, are absent.
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
