"""WordLlama's token vectors and tokenizer, from which the files of the static encoder are made.

They are read straight from the package's folder: importing ``wordllama`` configures the root logger.
"""

import json
import struct
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.encode.static import DIGIT, token_means
from sigma_mem.errors import MissingExtraError
from sigma_mem.events import FloatArray

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6  # types of a piece in a SentencePiece model


def raw_means(texts: Sequence[str], digit: float = DIGIT) -> FloatArray:
    """Means of WordLlama's own vectors, shape (n, 256); 0 for a text without tokens."""
    return token_means(texts, token_vectors(), digit)


@cache
def token_vectors() -> NDArray[np.float16]:
    """The vector of every token, shape (32000, 256)."""
    path = _folder() / _WEIGHTS
    with path.open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        about = json.loads(file.read(size))["embedding.weight"]
    start, shape = 8 + size + about["data_offsets"][0], tuple(about["shape"])
    return np.memmap(path, dtype="<f2", mode="r", offset=start, shape=shape).view(np.ndarray)


def sentencepiece_model() -> bytes:
    """WordLlama's tokenizer as a SentencePiece model: a pair that is merged earlier has a higher score."""
    described = json.loads((_folder() / _TOKENIZER).read_text(encoding="utf-8"))["model"]
    rank: dict[str, int] = {}
    for place, pair in enumerate(described["merges"]):
        rank.setdefault("".join(pair.split(" ") if isinstance(pair, str) else pair), place)
    vocabulary = sorted(described["vocab"].items(), key=lambda item: item[1])
    pieces = b"".join(_field(1, _piece(piece, rank)) for piece, _ in vocabulary)
    byte_pairs = _field(3, 2) + _field(4, len(vocabulary)) + _field(35, 1)  # model type, size, byte fallback
    as_it_is = _field(1, b"identity") + _field(3, 1) + _field(4, 0) + _field(5, 1)  # "▁" first and for spaces
    return pieces + _field(2, byte_pairs) + _field(3, as_it_is)


def _piece(piece: str, rank: dict[str, int]) -> bytes:
    kind = {"<unk>": _UNKNOWN, "<s>": _CONTROL, "</s>": _CONTROL}.get(piece, _NORMAL)
    if kind == _NORMAL and piece.startswith("<0x"):
        kind = _BYTE
    score = -float(rank[piece]) if piece in rank else -1e9 if kind == _NORMAL else 0.0
    return _field(1, piece.encode()) + _field(2, score) + _field(3, kind)


def _field(number: int, value: Any) -> bytes:
    """One field of a protocol buffer: bytes, a float or a small integer."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _folder() -> Path:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "WordLlama's own vectors are in the package wordllama, which is not installed; "
            "run: pip install 'wordllama>=0.4'"
        )
    return Path(spec.origin).parent
