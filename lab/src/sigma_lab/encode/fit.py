"""Fit an encoder on the reference prompts: ``python -m sigma_lab.encode.fit {static,minilm} [FOLDER]``.

A change of the result is a change of φ: give the encoder a new version, which is part of its files' names.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.encode.everyday import kinds_of_prompts
from sigma_lab.encode.wordllama import raw_means, sentencepiece_model, token_vectors
from sigma_mem.encode.base import unit
from sigma_mem.encode.glossary import in_english
from sigma_mem.encode.minilm import MiniLMEncoder
from sigma_mem.encode.static import DATA, StaticEncoder
from sigma_mem.events import FloatArray

DIRECTIONS = 80
TEMPERATURE = 0.4  # sharper than the classifier's own doubt: see docs/encoders
_SCALE = np.sqrt(DIRECTIONS) / 4.0
_PENALTY = 3e-4


def whitening(h: FloatArray, components: int) -> tuple[FloatArray, FloatArray]:
    """Mean (d,) and map (d, k) onto the leading principal directions of ``h`` (n, d), at variance 1.

    k is ``components``, or fewer if ``h`` does not vary in that many directions.
    """
    mean = h.mean(axis=0)
    _, spread, axes = np.linalg.svd(h - mean, full_matrices=False)
    k = min(components, int((spread > 1e-8 * spread[0]).sum()))
    return mean, axes[:k].T * (np.sqrt(len(h)) / spread[:k])


def logistic(
    x: FloatArray, y: NDArray[np.intp], penalty: float, steps: int = 400
) -> tuple[FloatArray, FloatArray]:
    """W, b of multinomial logistic regression, mean cross-entropy plus penalty·‖W‖².

    Böhning's bound: the Hessian is at most ½ XᵀX/n for every class, so one fixed solve serves every step.
    """
    n, k = x.shape
    target = np.eye(int(y.max()) + 1)[y]
    ones = np.column_stack([x, np.ones(n)])
    ridge = np.diag([2.0 * penalty] * k + [1e-9])
    solve = np.linalg.inv(0.5 * ones.T @ ones / n + ridge)
    theta = momentum = np.zeros((k + 1, target.shape[1]))
    for step in range(steps):
        ahead = theta + step / (step + 3.0) * (theta - momentum)
        logits = ones @ ahead
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        momentum, theta = theta, ahead - solve @ (ones.T @ (p - target) / n + ridge @ ahead)
    return theta[:-1], theta[-1]


def fit(h: FloatArray, labels: Sequence[str]) -> dict[str, FloatArray]:
    """Mean, whitening, W and bias from embeddings h (n, d) of labelled prompts."""
    mean, whiten = whitening(h, DIRECTIONS)
    names = sorted(set(labels))
    y = np.array([names.index(label) for label in labels], dtype=np.intp)
    W, bias = logistic(_SCALE * unit((h - mean) @ whiten), y, _PENALTY, steps=150)
    return {"mean": mean, "whiten": whiten, "W": W * (_SCALE / TEMPERATURE), "bias": bias / TEMPERATURE}


def fit_static(folder: Path, scale: int = 20) -> None:
    """Write the files of the static encoder, from some 1,000 prompts a unit of ``scale``."""
    texts, labels = kinds_of_prompts(scale)
    arrays = fit(raw_means([in_english(text) for text in texts]), labels)
    whitened = (token_vectors().astype(np.float64) - arrays["mean"]) @ arrays["whiten"]
    np.save(folder / f"static-{StaticEncoder.version}-tokens.npy", whitened.astype(np.float16))
    (folder / "tokens.model").write_bytes(sentencepiece_model())
    _save(folder / f"static-{StaticEncoder.version}.npz", W=arrays["W"], bias=arrays["bias"])


def fit_minilm(folder: Path, scale: int = 4) -> None:
    """Write the file of MiniLM; a network takes its time, so from fewer prompts."""
    texts, labels = kinds_of_prompts(scale)
    _save(folder / f"minilm-{MiniLMEncoder.version}.npz", **fit(MiniLMEncoder().embed(texts), labels))


def _save(path: Path, **arrays: FloatArray) -> None:
    single: dict[str, Any] = {name: array.astype(np.float32) for name, array in arrays.items()}
    np.savez_compressed(path, **single)


def main() -> None:
    """Write the files of an encoder, by default where the product ships them."""
    name = sys.argv[1] if len(sys.argv) > 1 else "static"
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else DATA
    {"static": fit_static, "minilm": fit_minilm}[name](folder)
    print(folder)


if __name__ == "__main__":
    main()
