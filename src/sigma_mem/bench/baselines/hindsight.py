"""Rows that see every label of the stream at once: expectations, ceilings and oracles, not mechanisms.

Each takes the stream's labels c as (T, P), NaN where there is none, and returns the chosen peer of
every event.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

__all__ = ["any_right", "best_fixed", "domain_oracle", "random_peer"]

Choices = NDArray[np.intp]


def _right(labels: FloatArray) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = labels > 0  # NaN > 0 is False
    return right


def best_fixed(labels: FloatArray) -> Choices:
    """The one peer that was right most often over the whole stream.

    >>> import numpy as np
    >>> best_fixed(np.array([[1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]])).tolist()
    [1, 1, 1]
    """
    return np.full(len(labels), int(_right(labels).sum(axis=0).argmax()), dtype=np.intp)


def domain_oracle(labels: FloatArray, domains: Sequence[str]) -> Choices:
    """In every domain the peer that was right most often there (the paper's oracle reputation).

    >>> import numpy as np
    >>> domain_oracle(np.array([[1.0, -1.0], [-1.0, 1.0]]), ["math", "law"]).tolist()
    [0, 1]
    """
    names, which = np.unique(np.asarray(domains, dtype=str), return_inverse=True)
    wins = np.zeros((len(names), labels.shape[1]))
    np.add.at(wins, which, _right(labels))
    return np.asarray(wins.argmax(axis=1)[which], dtype=np.intp)


def any_right(labels: FloatArray) -> Choices:
    """A right peer wherever there is one: the ceiling of every choice among these answers.

    >>> import numpy as np
    >>> any_right(np.array([[-1.0, 1.0], [-1.0, -1.0]])).tolist()
    [1, 0]
    """
    return np.asarray(_right(labels).argmax(axis=1), dtype=np.intp)


def random_peer(labels: FloatArray) -> float:
    """Expected accuracy of choosing a peer at random.

    >>> import numpy as np
    >>> random_peer(np.array([[-1.0, 1.0], [-1.0, -1.0]]))
    0.25
    """
    return float(_right(labels).mean()) if len(labels) else 0.0
