"""Which kind of question it is: the domains of a training stream, told from words and embedding.

Multinomial logistic regression with one penalty for word weights and one for the whitened embedding.
No peer and no label of correctness takes part, so what it tells cannot depend on who was recorded.
The logits that training goes on with are cross-fitted, each event's from a fit that did not see it:
else a memory would be learned for questions that are told far better than new ones will be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sigma_mem.encode.words import Words
from sigma_mem.events import FloatArray

_MOST = 64  # kinds; the rarest domains beyond share one
_LEAST = 8  # events of a domain that is a kind of its own
_FOLDS = 4
_ITERATIONS = 50


@dataclass(frozen=True, slots=True)
class Kinds:
    """A linear map from V word stems and k features to n kinds, and its logits for the training events."""

    words: Words
    words_W: FloatArray  # (V, n)
    features_W: FloatArray  # (k, n)
    bias: FloatArray  # (n,)
    logits: FloatArray  # (T, n), cross-fitted


def kinds_of(domains: Sequence[str]) -> NDArray[np.intp]:
    """The kind of every event: its domain, or one common kind for the rare ones.

    >>> kinds_of(["math"] * 9 + ["law"] * 9 + ["art", "chess"]).tolist()[-3:]
    [0, 2, 2]
    """
    names, codes, sizes = np.unique(np.asarray(domains, dtype=str), return_inverse=True, return_counts=True)
    own = [i for i in np.argsort(-sizes, kind="stable")[: _MOST - 1].tolist() if sizes[i] >= _LEAST]
    number = np.full(len(names), len(own), dtype=np.intp)
    number[sorted(own)] = np.arange(len(own))
    return number[codes.ravel()]


def fit_kinds(
    texts: Sequence[str],
    z: FloatArray,
    kinds: NDArray[np.intp],
    penalties: tuple[float, float],
    progress: Callable[[str, int, int], None],
) -> Kinds:
    """Fit on texts, whitened features z (T, k) and kinds (T,); one penalty is for word weights, one for z."""
    words = Words.of(texts)
    rows = [words.row(text) for text in texts]
    fold = np.arange(len(texts)) % _FOLDS  # the stream is in random order
    n = int(kinds.max()) + 1
    logits = np.zeros((len(texts), n))
    for number in range(_FOLDS):
        seen = np.flatnonzero(fold != number)
        A, B, bias = _logistic(len(words.keys), n, [rows[i] for i in seen], z[seen], kinds[seen], penalties)
        for i in np.flatnonzero(fold == number):
            places, values = rows[i]
            logits[i] = values @ A[places] + z[i] @ B + bias
        progress("tell kinds", number + 1, _FOLDS + 1)
    A, B, bias = _logistic(len(words.keys), n, rows, z, kinds, penalties)
    progress("tell kinds", _FOLDS + 1, _FOLDS + 1)
    return Kinds(words, A, B, bias, logits)


def _logistic(
    size: int,
    n: int,
    rows: Sequence[tuple[NDArray[np.intp], FloatArray]],
    z: FloatArray,
    kinds: NDArray[np.intp],
    penalties: tuple[float, float],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ cross-entropy + ½ Σ penalty·weight², by L-BFGS over weights scaled so that both penalties are 1."""
    events = np.repeat(np.arange(len(rows)), [len(places) for places, _ in rows])
    places = np.concatenate([places for places, _ in rows])
    values = torch.tensor(np.concatenate([values for _, values in rows]), dtype=torch.float32)
    counted = torch.sparse_coo_tensor(
        torch.tensor(np.stack([events, places])), values, (len(rows), size), check_invariants=True
    ).coalesce()
    features, target = torch.tensor(z, dtype=torch.float32), torch.tensor(kinds)
    of_words, of_features = (1.0 / penalty**0.5 for penalty in penalties)
    A, B, bias = (torch.zeros(shape, requires_grad=True) for shape in ((size, n), (z.shape[1], n), (n,)))
    optimizer = torch.optim.LBFGS([A, B, bias], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        logits = of_words * torch.sparse.mm(counted, A) + of_features * (features @ B) + bias
        loss = torch.nn.functional.cross_entropy(logits, target, reduction="sum")
        loss = loss + 0.5 * (A.square().sum() + B.square().sum())
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    words_W, features_W, found_bias = (found.detach().double().numpy() for found in (A, B, bias))
    return of_words * words_W, of_features * features_W, found_bias
