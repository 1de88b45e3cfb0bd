"""A learned φ: soft prototypes over a frozen encoder, fitted by ``sigma-mem train phi``.

    logits = scale·log φ₀² + (h − mean)·whiten·W + bias,   φ = √softmax(logits)

h is the frozen encoder's embedding of the text (its φ₀ where it shows none) and φ₀ its own φ. φ is
nonnegative and of norm 1 by itself, so (φ·φ′)² is near 1 for two questions of one kind and near 0
for two kinds: a sharp kernel without a larger state. At W = 0, scale = 1 it is φ₀ exactly.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.encode.base import Encoder, unit
from sigma_mem.errors import EncoderMismatchError, InputError
from sigma_mem.events import FloatArray

__all__ = ["ARRAYS", "LearnedEncoder", "features_of", "log_prototypes"]

ARRAYS = ("mean", "whiten", "W", "bias", "scale")
_FLOOR = 1e-9  # of φ₀², before its logarithm
_MAX_HEADER = 1 << 20


def features_of(base: Encoder, texts: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """h and φ₀ of every text: the base encoder's embedding where it has ``embed``, and its φ."""
    phi = base.encode(texts)
    embed = getattr(base, "embed", None)
    return (phi if embed is None else np.asarray(embed(texts), dtype=np.float64)), phi


def log_prototypes(phi: FloatArray) -> FloatArray:
    """log φ₀², what a softmax turns back into φ₀² (signs are lost)."""
    logits: FloatArray = np.log(np.maximum(np.square(phi), _FLOOR))
    return logits


class LearnedEncoder:
    """φ from learned soft prototypes over a frozen base encoder; needs numpy only.

    Parameters
    ----------
    base : Encoder
        The one it was trained over, by name and version.
    arrays : mapping
        ``mean`` (d,), ``whiten`` (d, k), ``W`` (k, rank), ``bias`` (rank,), ``scale`` (1,).

    Examples
    --------
    >>> from sigma_mem.encode.hashed import HashedEncoder
    >>> base = HashedEncoder(rank=8)
    >>> arrays = {"mean": np.zeros(8), "whiten": np.eye(8), "W": np.zeros((8, 8)),
    ...           "bias": np.zeros(8), "scale": np.ones(1)}
    >>> phi = LearnedEncoder(base, arrays).encode(["What is 2 + 2?"])
    >>> phi.shape, round(float((phi**2).sum()), 6)
    ((1, 8), 1.0)
    """

    def __init__(self, base: Encoder, arrays: Mapping[str, FloatArray]) -> None:
        absent = [name for name in ARRAYS if name not in arrays]
        if absent:
            raise InputError(f"arrays {absent} are missing; expected {list(ARRAYS)}")
        self._base = base
        self._arrays = {name: np.asarray(arrays[name], dtype=np.float64) for name in ARRAYS}
        self.name = f"learned:{base.name}"
        self.version = f"{base.version}-{_digest(self._arrays)}"
        self.rank = int(self._arrays["W"].shape[1])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        h, phi = features_of(self._base, texts)
        return self.project(h, log_prototypes(phi))

    def project(self, h: FloatArray, log_phi: FloatArray) -> FloatArray:
        """φ of features h (n, d) and base logits (n, rank)."""
        a = self._arrays
        logits = a["scale"] * log_phi + ((h - a["mean"]) @ a["whiten"]) @ a["W"] + a["bias"]
        # √softmax, shifted by the maximum so that nothing overflows; unit cleans the last bits.
        return unit(np.exp(0.5 * (logits - logits.max(axis=1, keepdims=True))))

    @classmethod
    def load(cls, path: str | PathLike[str], base: Encoder) -> LearnedEncoder:
        """Read what ``sigma-mem train phi`` wrote.

        Raises
        ------
        InputError
            Where the file is absent, damaged, or of another kind.
        EncoderMismatchError
            Where it was trained over another base encoder.
        """
        about, arrays = _read(Path(path))
        if (about.get("base"), about.get("base_version")) != (base.name, base.version):
            raise EncoderMismatchError(
                f"{path} was trained over the encoder {about.get('base')} {about.get('base_version')}; "
                f"got {base.name} {base.version}: open it with that one, or train anew"
            )
        return cls(base, arrays)


def base_name(path: str | PathLike[str]) -> str:
    """Name of the encoder that a learned φ was trained over."""
    return str(_read(Path(path))[0].get("base", ""))


def _digest(arrays: Mapping[str, FloatArray]) -> str:
    digest = sha256()
    for name in ARRAYS:
        digest.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return digest.hexdigest()[:12]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """The description and arrays of a safetensors file: length, JSON header, then raw numbers."""
    if not path.is_file():
        raise InputError(f"no learned φ at {path}; expected a file that  sigma-mem train phi  wrote")
    raw = path.read_bytes()
    try:
        size = struct.unpack("<Q", raw[:8])[0]
        if size > _MAX_HEADER:
            raise ValueError(f"a header of {size} bytes")
        header = json.loads(raw[8 : 8 + size])
        meta = header.pop("__metadata__")
        if meta["kind"] != "phi":
            raise ValueError(f"a file of kind {meta['kind']!r}")
        arrays = {name: _array(raw[8 + size :], **header[name]) for name in ARRAYS}
        return json.loads(meta["about"]), arrays
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise InputError(f"{path} is not a learned φ ({error}); expected a file of  train phi") from error


def _array(body: bytes, dtype: str, shape: Sequence[int], data_offsets: Sequence[int]) -> FloatArray:
    if dtype != "F64":
        raise ValueError(f"numbers of type {dtype}")
    start, stop = data_offsets
    return np.frombuffer(body[start:stop], dtype="<f8").reshape(shape).astype(np.float64)
