"""An encoder of your own: any callable from texts to unit vectors, checked at every call.

Vectors of more than 256 dimensions are projected to the memory's rank, φ = unit(h·R), because a memory holds
rank² numbers for every peer and horizon. R has entries ±1/√rank from a fixed hash: the same on every machine
and in every version, so that a memory that is opened again has the same φ. Inner products are kept up to
about 1/√rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import shake_256

import numpy as np
from numpy.typing import ArrayLike

from sigma_mem.encode.base import ENCODERS, Encoder, as_texts, unit
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

WIDEST = 256  # dimensions that are taken as they are
RANK = 64  # of what is wider, if the caller names none
_TOLERANCE = 1e-3  # of a norm: single precision, and rounded JSON

Embed = Callable[[list[str]], ArrayLike]


class CustomEncoder:
    """A callable ``embed(texts)``, or an encoder object, whose vectors are checked and projected if wide.

    Parameters
    ----------
    embed : callable or Encoder
        Takes a list of str and returns one vector of norm 1 for each.
    name, version : str, optional
        What a memory records; raise the version whenever the vectors change. By default those of the
        encoder object, or the callable's name and ``"1"``.
    rank : int, optional
        Dimension of φ: that of the vectors, or 64 if they have more than 256.

    Examples
    --------
    >>> def signs(texts):
    ...     return [[1.0, 0.0] if "?" in text else [0.0, 1.0] for text in texts]
    >>> encoder = CustomEncoder(signs)
    >>> encoder.name, encoder.rank, encoder.encode(["Why?"]).tolist()
    ('signs', 2, [[1.0, 0.0]])
    """

    def __init__(
        self,
        embed: Embed | Encoder,
        *,
        name: str | None = None,
        version: str | None = None,
        rank: int | None = None,
    ) -> None:
        method = getattr(embed, "encode", None)
        if not callable(method) and not callable(embed):
            kind = type(embed).__name__
            raise InputError(f"encoder is of type {kind}; expected a name, a callable or an Encoder object")
        self._embed: Embed = method if callable(method) else embed  # type: ignore[assignment]
        own = getattr(embed, "__qualname__", None) or type(embed).__qualname__
        self.name = str(name or getattr(embed, "name", None) or own)
        if self.name in ENCODERS and not callable(method):
            raise InputError(
                f"the encoder is called {self.name!r}, as a shipped one is; expected another name: "
                "CustomEncoder(embed, name=...)"
            )
        known = getattr(embed, "rank", None)
        self.dimension = int(known) if known is not None else self._asked()
        self.rank = rank or (RANK if self.dimension > WIDEST else self.dimension)
        if self.rank > self.dimension:
            raise InputError(
                f"rank is {self.rank} and the encoder {self.name!r} has {self.dimension} dimensions; "
                f"expected a rank of at most {self.dimension}"
            )
        self.version = str(version or getattr(embed, "version", None) or "1")
        if self.rank < self.dimension:
            self.version += f", {self.dimension} to {self.rank}"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        known = as_texts(texts)
        if not known:
            return np.zeros((0, self.rank))
        rows = self._checked(self._embed(known), len(known))
        if self.rank == self.dimension:
            return rows
        return unit(rows @ self._projection)

    @cached_property
    def _projection(self) -> FloatArray:
        return sign_projection(self.dimension, self.rank)

    def _asked(self) -> int:
        """The dimension of the vector of a short text."""
        found = self._array(self._embed(["What is 17 * 23?"]))
        if found.ndim != 2 or len(found) != 1 or not found.shape[1]:
            raise InputError(
                f"the encoder {self.name!r} returned an array of shape {found.shape} for one text; "
                "expected (1, dimensions): one vector for each text in the list"
            )
        return int(found.shape[1])

    def _array(self, found: ArrayLike) -> FloatArray:
        try:
            return np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the encoder {self.name!r} returned no array of numbers ({error}); "
                "expected one vector for each text"
            ) from error

    def _checked(self, found: ArrayLike, n: int) -> FloatArray:
        rows = self._array(found)
        if rows.shape != (n, self.dimension):
            raise InputError(
                f"the encoder {self.name!r} returned an array of shape {rows.shape}; "
                f"expected ({n}, {self.dimension}): one vector for each text"
            )
        norms = np.linalg.norm(rows, axis=1)
        wrong = ~(np.abs(norms - 1.0) <= _TOLERANCE)  # a NaN is wrong too
        if wrong.any():
            place = int(wrong.argmax())
            raise InputError(
                f"the encoder {self.name!r} returned a vector of norm {norms[place]:.6g} for text {place}; "
                "expected 1: divide every vector by its norm"
            )
        out: FloatArray = rows / norms[:, None]
        return out


def sign_projection(dimension: int, rank: int) -> FloatArray:
    """±1/√rank, shape (dimension, rank), from a hash: the same everywhere and always."""
    bits = np.frombuffer(
        shake_256(b"sigma-mem projection").digest((dimension * rank + 7) // 8), dtype=np.uint8
    )
    signs = 2.0 * np.unpackbits(bits)[: dimension * rank].reshape(dimension, rank) - 1.0
    out: FloatArray = signs / np.sqrt(rank)
    return out
