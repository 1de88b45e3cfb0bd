"""φ as it was learned with a steering: φ = unit([unit(W·whiten(h)); const])."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sigma_mem.center.errors import SteeringMismatchError
from sigma_mem.center.features import Features
from sigma_mem.encode import unit
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

__all__ = ["LearnedEncoder", "PhiMap"]


@dataclass(frozen=True, slots=True)
class PhiMap:
    """From features h to φ.

    Without the constant coordinate the linear readout M_pφ could not carry a peer's overall competence,
    and without whitening every question would point in one direction.

    Attributes
    ----------
    mean : (D,)
    whiten : (K, D)
        Rows that take h − mean to uncorrelated coordinates of variance 1.
    weight : (rank − 1, K)
        W.
    const : float
        The constant coordinate, beside a unit vector.
    """

    mean: FloatArray
    whiten: FloatArray
    weight: FloatArray
    const: float

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        return len(self.weight) + 1

    def __call__(self, features: FloatArray) -> FloatArray:
        """(n, D) features → (n, rank) unit rows."""
        if features.ndim != 2 or features.shape[1] != len(self.mean):
            raise InputError(f"features have shape {features.shape}; expected (rows, {len(self.mean)})")
        rows = (features - self.mean) @ self.whiten.T @ self.weight.T
        rows /= np.linalg.norm(rows, axis=1, keepdims=True).clip(min=1e-12)
        return unit(np.hstack([rows, np.full((len(rows), 1), self.const)]))

    def arrays(self) -> dict[str, FloatArray]:
        """Everything, under the names of a checkpoint."""
        return {
            "phi.mean": self.mean,
            "phi.whiten": self.whiten,
            "phi.weight": self.weight,
            "phi.const": np.array([self.const]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> PhiMap:
        """The inverse of `arrays`."""
        mean, whiten, weight = (arrays[f"phi.{name}"] for name in ("mean", "whiten", "weight"))
        return cls(mean, whiten, weight, float(arrays["phi.const"][0]))


class LearnedEncoder:
    """An encoder for `SigmaMem`: features of a frozen source, then the learned map.

    Parameters
    ----------
    expected
        Name of the features that the map was learned on; empty is not checked.
    """

    def __init__(self, source: Features, phi: PhiMap, *, expected: str = "") -> None:
        if expected not in ("", source.name):
            raise SteeringMismatchError(
                f"the checkpoint's φ was learned on features {expected}, got {source.name}; "
                "use that model and encoder, or train a steering for this one"
            )
        self.source, self.phi = source, phi

    @property
    def name(self) -> str:
        """What the map was learned on."""
        return f"learned on {self.source.name}"

    @property
    def version(self) -> str:
        """Hash of the map."""
        digest = hashlib.sha256()
        for name, value in sorted(self.phi.arrays().items()):
            digest.update(name.encode() + np.ascontiguousarray(value, dtype="<f8").tobytes())
        return digest.hexdigest()[:16]

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        return self.phi.rank

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """φ of every text."""
        return self.phi(self.source.features(texts))
