"""Who is trusted for what: p̂ as the memory read it at the latest tasks of each domain."""

from __future__ import annotations

from collections import deque

import numpy as np

from sigma_mem.events import FloatArray

from .agents import PEERS
from .step import Step
from .tasks import DOMAINS

__all__ = ["Trust"]


class Trust:
    """p̂ and effective evidence per peer and domain, averaged over the domain's last `window` tasks.

    The memory knows questions, not domains; the average is taken here, for the reader.
    """

    def __init__(self, window: int = 15) -> None:
        self._recent: dict[str, deque[tuple[list[float], list[float]]]] = {
            domain: deque(maxlen=window) for domain in DOMAINS
        }
        self._history: list[FloatArray] = []

    def add(self, step: Step) -> None:
        """Take in what the memory said of everybody at one task."""
        read = [step.probs[p] for p in PEERS], [step.effective[p] for p in PEERS]
        self._recent[step.task.domain].append(read)
        self._history.append(self.probs())

    def probs(self) -> FloatArray:
        """Mean p̂, (peers, domains); NaN where no task has come yet."""
        return self._mean(0)

    def effective(self) -> FloatArray:
        """Mean effective evidence, (peers, domains)."""
        return self._mean(1)

    def history(self) -> FloatArray:
        """`probs` after every task, (tasks, peers, domains)."""
        return np.array(self._history)

    def _mean(self, which: int) -> FloatArray:
        columns = [
            np.mean([read[which] for read in recent], axis=0) if recent else np.full(len(PEERS), np.nan)
            for recent in self._recent.values()
        ]
        return np.array(columns).T
