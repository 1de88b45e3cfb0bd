"""φ from the center itself: φ = unit([W·whiten(h); const]), h its hidden state of the question alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sigma_mem.center.center import Center
from sigma_mem.center.errors import CenterError
from sigma_mem.center.features import CenterFeatures, Features
from sigma_mem.center.learned import LearnedEncoder, PhiMap
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

__all__ = ["CenterEncoder", "whitening"]

_FORMAT = "sigma-mem center encoder 1"


def whitening(features: FloatArray, rank: int, const: float) -> PhiMap:
    """A map to φ fitted without labels: the leading principal coordinates at variance 1, W the identity.

    Parameters
    ----------
    features : (n, D)
        Of reference questions; more of them than ``rank``, or some directions could not be told from noise.
    rank
        Dimension of φ, the constant coordinate included.
    const
        The constant coordinate, beside a unit vector.
    """
    n = len(features)
    if not 2 <= rank <= min(n - 1, features.shape[1]):
        raise InputError(
            f"got {n} reference questions with {features.shape[1]} features for rank {rank}; expected "
            f"2 ≤ rank ≤ {max(min(n - 1, features.shape[1]), 2)}: give more questions or a smaller rank"
        )
    mean = features.mean(axis=0)
    _, spread, axes = np.linalg.svd(features - mean, full_matrices=False)
    scale = spread[: rank - 1, None] / np.sqrt(n)
    return PhiMap(mean, axes[: rank - 1] / np.maximum(scale, 1e-9 * scale[0]), np.eye(rank - 1), const)


class CenterEncoder(LearnedEncoder):
    """An encoder for `SigmaMem` that needs no second model: the center reads the question.

    Only the blocks below a quarter of the model run. The first token is left out of the mean: it is an
    attention sink, beside which all questions look alike (see `CenterFeatures`).

    Examples
    --------
    ::

        center = Center.load("smollm2")
        encoder = CenterEncoder.fit(center, reference_questions, rank=64)
        encoder.save("phi.safetensors")
        mem = SigmaMem(peers=[...], encoder=encoder)
    """

    @classmethod
    def fit(
        cls, center: Center, questions: Sequence[str], *, rank: int = 64, const: float = 1.0
    ) -> CenterEncoder:
        """Fit the whitening once, on questions like those to come; no answer and no label is needed."""
        source = CenterFeatures(center)
        return cls(source, whitening(source.features(questions), rank, const))

    def save(self, path: str | Path) -> None:
        """Write the map and the name of what it was fitted on as one safetensors file."""
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        arrays = {name: np.ascontiguousarray(value) for name, value in self.phi.arrays().items()}
        save_file(arrays, partial, metadata={"format": _FORMAT, "features": self.source.name})
        partial.replace(target)

    @classmethod
    def open(cls, path: str | Path, center: Center) -> CenterEncoder:
        """Read an encoder that ``save`` wrote, for the center that it was fitted on."""
        try:
            with safe_open(str(path), framework="numpy") as file:
                meta = dict(file.metadata() or {})
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except FileNotFoundError as error:
            raise InputError(
                f"no encoder at {path}: fit one with CenterEncoder.fit and save it there"
            ) from error
        except (SafetensorError, OSError) as error:
            raise CenterError(f"{path} is not a readable safetensors file: {error}") from error
        if meta.get("format") != _FORMAT:
            raise CenterError(
                f"{path} is not an encoder of a center: expected a file that CenterEncoder.save wrote"
            )
        source: Features = CenterFeatures(center)
        return cls(source, PhiMap.from_arrays(arrays), expected=meta["features"])
