"""A learned φ: soft prototypes over a frozen encoder, fitted by ``sigma-mem train phi``.

    z = (h − mean)·whiten
    prototypes = √softmax(scale·log φ₀² + z·W + bias)
    kinds      = √softmax(words·words_W + z·kinds_W + kinds_bias)
    φ = [√share·kinds ; √(1 − share)·prototypes]

h is the frozen encoder's embedding of the text (its φ₀ where it shows none) and φ₀ its own φ. Both parts
are nonnegative and of norm 1, so (φ·φ′)² is near 1 for two questions of one kind and near 0 for two kinds:
a sharp kernel without a large state. The kinds are the domains of the stream it was learned from; the
prototypes still tell apart what none of those domains covers. A φ learned from a stream with one domain
has no kinds. Without them, at W = 0 and scale = 1, it is φ₀ exactly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.encode.base import Encoder, as_texts, root_softmax, unit
from sigma_mem.encode.words import Words
from sigma_mem.errors import EncoderMismatchError, InputError
from sigma_mem.events import FloatArray

ARRAYS = ("mean", "whiten", "W", "bias", "scale")
KINDS = ("words", "idf", "words_W", "kinds_W", "kinds_bias", "share")
_FLOOR = 1e-9  # of φ₀², before its logarithm


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
    """φ from learned soft prototypes over the frozen encoder it was trained over; needs numpy only.

    The arrays are ``mean`` (d,), ``whiten`` (d, k), ``W`` (k, r), ``bias`` (r,), ``scale`` (1,) with r the
    base's rank; with kinds also ``words`` and ``idf`` (V,), ``words_W`` (V, n), ``kinds_W`` (k, n),
    ``kinds_bias`` (n,) and ``share`` (1,). The rank of φ is r, or r + n.
    """

    def __init__(self, base: Encoder, arrays: Mapping[str, FloatArray]) -> None:
        names = _names(arrays)
        absent = [name for name in names if name not in arrays]
        if absent:
            raise InputError(f"arrays {absent} are missing; expected {list(names)}")
        self._base = base
        self._arrays = {name: np.asarray(arrays[name], dtype=np.float64) for name in names}
        self._words = Words(self._arrays["words"], self._arrays["idf"]) if "words" in names else None
        self.name = f"learned:{base.name}"
        numbers = b"".join(array.astype("<f8").tobytes() for array in self._arrays.values())
        self.version = f"{base.version}-{sha256(numbers).hexdigest()[:12]}"
        self.rank = int(self._arrays["W"].shape[1])
        if self._words is not None:
            self.rank += int(self._arrays["kinds_W"].shape[1])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        texts = as_texts(texts)
        h, phi = features_of(self._base, texts)
        a = self._arrays
        z = (h - a["mean"]) @ a["whiten"]
        prototypes = root_softmax(a["scale"] * log_prototypes(phi) + z @ a["W"] + a["bias"])
        if self._words is None:
            return prototypes
        kinds = root_softmax(self._words.dot(texts, a["words_W"]) + z @ a["kinds_W"] + a["kinds_bias"])
        share = float(a["share"][0])
        return unit(np.hstack((np.sqrt(share) * kinds, np.sqrt(1.0 - share) * prototypes)))

    @classmethod
    def load(cls, path: str | PathLike[str], base: Encoder) -> LearnedEncoder:
        """Read what ``sigma-mem train phi`` wrote; EncoderMismatchError where it was over another base."""
        about, arrays = _read(Path(path))
        if (about.get("base"), about.get("base_version")) != (base.name, base.version):
            raise EncoderMismatchError(
                f"{path} was trained over the encoder {about.get('base')} {about.get('base_version')}; "
                f"got {base.name} {base.version}: open it with that one, or train anew"
            )
        return cls(base, arrays)


def _names(arrays: Mapping[str, object]) -> tuple[str, ...]:
    """Which arrays belong to a φ: those of the kinds only where there is one of them."""
    return (*ARRAYS, *KINDS) if any(name in arrays for name in KINDS) else ARRAYS


def _read(path: Path) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Description and arrays of a file."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"no learned φ at {path}; expected a file that  sigma-mem train phi  wrote")
    try:
        with safe_open(str(path), framework="numpy") as file:
            meta = file.metadata() or {}
            if meta.get("kind") != "phi":
                raise ValueError(f"a file of kind {meta.get('kind')!r}")
            names = _names(dict.fromkeys(file.keys()))
            arrays = {name: file.get_tensor(name).astype(np.float64) for name in names}
        return json.loads(meta["about"]), arrays
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a learned φ ({error}); expected a file of  train phi") from error
