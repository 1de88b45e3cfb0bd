"""Fit an encoder on the reference prompts: ``python -m sigma_lab.encode.fit {static,minilm} [FILE]``.

A change of the result is a change of φ: give the encoder a new version, and the file its name.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sigma_lab.encode.everyday import kinds_of_prompts
from sigma_mem.encode import static
from sigma_mem.encode.base import whitening
from sigma_mem.encode.minilm import MiniLMEncoder
from sigma_mem.encode.static import StaticEncoder, direction
from sigma_mem.events import FloatArray

DIRECTIONS = 80
TEMPERATURE = 0.4  # sharper than the classifier's own doubt: see docs/encoders
_SCALE = np.sqrt(DIRECTIONS) / 4.0
_PENALTY = 3e-4


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


def fit(encoder: StaticEncoder | MiniLMEncoder, scale: int = 20) -> dict[str, FloatArray]:
    """The arrays of the encoder's file in ``data``, from some 1,000 prompts a unit of ``scale``."""
    texts, labels = kinds_of_prompts(scale)
    h = encoder.embed(texts)
    mean, whiten = whitening(h, DIRECTIONS)
    names = sorted(set(labels))
    y = np.array([names.index(label) for label in labels], dtype=np.intp)
    W, bias = logistic(_SCALE * direction(h, mean, whiten), y, _PENALTY, steps=150)
    return {"mean": mean, "whiten": whiten, "W": W * (_SCALE / TEMPERATURE), "bias": bias / TEMPERATURE}


def main() -> None:
    """Write the fitted arrays in single precision."""
    name = sys.argv[1] if len(sys.argv) > 1 else "static"
    encoder = StaticEncoder() if name == "static" else MiniLMEncoder()
    folder = Path(static.__file__).parent / "data"  # of the product, which ships it
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else folder / f"{encoder.name}-{encoder.version}.npz"
    scale = 20 if name == "static" else 4  # a network takes its time
    a = {array: values.astype(np.float32) for array, values in fit(encoder, scale).items()}
    np.savez_compressed(path, mean=a["mean"], whiten=a["whiten"], W=a["W"], bias=a["bias"])
    print(path)


if __name__ == "__main__":
    main()
