"""Who was right how often: the reads, the peers, the best fixed peer in hindsight, the ceiling."""

from __future__ import annotations

import numpy as np

from sigma_mem.events import FloatArray

from .agents import PEERS
from .step import READS, Step

__all__ = ["CEILING", "League"]

CEILING = "any peer right"


class League:
    """Grades of every row, task by task. Rows are the reads, the peers and the ceiling."""

    def __init__(self) -> None:
        self._grades: dict[str, list[bool]] = {row: [] for row in (*READS, *PEERS, CEILING)}

    def __len__(self) -> int:
        return len(self._grades[CEILING])

    def add(self, step: Step) -> None:
        """Take one task's grades in."""
        for read in READS:
            self._grades[read].append(step.right[step.chosen[read]])
        for peer in PEERS:
            self._grades[peer].append(step.right[peer])
        self._grades[CEILING].append(any(step.right.values()))

    def accuracy(self, row: str, start: int = 0, stop: int | None = None) -> float:
        """Share of tasks start … stop−1 on which the row was right; NaN of none."""
        grades = self._grades[row][start:stop]
        return sum(grades) / len(grades) if grades else float("nan")

    def best_peer(self) -> str:
        """The peer that has been right most often so far: known in hindsight only."""
        return max(PEERS, key=lambda peer: sum(self._grades[peer]))

    def rolling(self, row: str, window: int) -> FloatArray:
        """Mean over the last `window` tasks (over fewer at the beginning), after every task."""
        sums = np.concatenate([[0.0], np.cumsum(self._grades[row], dtype=np.float64)])
        ends = np.arange(1, len(self) + 1)
        starts = np.maximum(ends - window, 0)
        mean: FloatArray = (sums[ends] - sums[starts]) / (ends - starts)
        return mean
