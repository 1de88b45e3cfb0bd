"""How far a claimed probability of being right can be believed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

BINS = 10  # of equal width
_SIMULATIONS = 1000
_TOGETHER = 100  # simulations in one array


@dataclass(frozen=True, slots=True)
class Forecast:
    """Claims of being right, and how right each answer was, from 0 to 1; arrays of shape (T,).

    >>> sure = Forecast(np.array([0.9, 0.9, 0.2]), np.array([1.0, 0.0, 0.0]))
    >>> round(sure.calibration_error, 3), round(sure.brier, 3), sure.auc
    (0.333, 0.287, 0.75)
    """

    confidence: FloatArray
    right: FloatArray

    def __len__(self) -> int:
        return len(self.confidence)

    @property
    def calibration_error(self) -> float:
        """ECE: Σ over ten bins of n_b/T · |mean confidence − share that was right|."""
        return float(self._error(self.right[None])[0])

    def perfect_error(self, quantile: float = 0.95, seed: int = 0) -> float:
        """The ECE that a perfect forecaster with the same confidences stays below, by simulation."""
        rng = np.random.default_rng(seed)
        drawn = (
            rng.random((_TOGETHER, len(self))) < self.confidence for _ in range(_SIMULATIONS // _TOGETHER)
        )
        return float(np.quantile(np.concatenate([self._error(right) for right in drawn]), quantile))

    @property
    def brier(self) -> float:
        """Mean squared difference between claim and truth."""
        return float(((self.confidence - self.right) ** 2).mean()) if len(self) else 0.0

    @property
    def auc(self) -> float:
        """How often a right answer has the higher confidence of two, one right, one wrong; ties count half.

        An answer is right if it is worth more than half; ½ if all or none are.
        """
        right = self.right > 0.5
        n_right, n_wrong = int(right.sum()), int((~right).sum())
        if not n_right or not n_wrong:
            return 0.5
        _, place, counts = np.unique(self.confidence, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[place]  # from 1, ties share theirs
        return float((ranks[right].sum() - n_right * (n_right + 1) / 2.0) / (n_right * n_wrong))

    def best_coverage(self, target: float) -> float:
        """Largest share of events at or above one threshold of which ``target`` are right, in hindsight."""
        order = np.argsort(-self.confidence, kind="stable")
        falling, number = self.confidence[order], np.arange(1, len(self) + 1)
        last = np.append(falling[1:] != falling[:-1], True) if len(self) else np.zeros(0, dtype=bool)
        enough = np.flatnonzero(last & (np.cumsum(self.right[order]) >= target * number))
        return float(number[enough[-1]] / len(self)) if len(enough) else 0.0

    def _bins(self) -> NDArray[np.intp]:
        return np.minimum((self.confidence * BINS).astype(np.intp), BINS - 1)

    def _error(self, right: FloatArray | NDArray[np.bool_]) -> FloatArray:
        """ECE against every row of ``right``, (R, T)."""
        member = np.eye(BINS)[self._bins()]  # (T, bins)
        error: FloatArray = np.abs((self.confidence - right) @ member).sum(axis=1) / max(len(self), 1)
        return error
