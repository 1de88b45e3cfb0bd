"""What the paper proves about the spectrum: eigenvalues, Weyl per event, Theorem 1."""

import math

import numpy as np

from sigma_mem.events import FloatArray


def eigenvalues(matrix: FloatArray) -> FloatArray:
    """Eigenvalues of a symmetric matrix (or a stack of them), largest first.

    >>> import numpy as np
    >>> eigenvalues(np.diag([1.0, 3.0, -2.0])).tolist()
    [3.0, 1.0, -2.0]
    """
    return np.linalg.eigvalsh(matrix)[..., ::-1].astype(np.float64, copy=False)


def weyl_excess(before: FloatArray, after: FloatArray, gamma: float, eta: float) -> float:
    """max_i |λᵢ(M′) − γλᵢ(M)| − η: not above 0 (up to rounding) for one event (prop:single-step-weyl)."""
    moved = np.abs(eigenvalues(after) - gamma * eigenvalues(before))
    return float(moved.max() - eta)


def weyl_excess_relation(before: FloatArray, after: FloatArray, gamma_g: float) -> float:
    """max_i |λᵢ(G′₀) − γ_G λᵢ(G₀)| − ‖E‖₂, with G₀ = G off the diagonal and E = G′₀ − γ_G G₀.

    The diagonal is reset to 1 on every event, which is not a small perturbation of γ_G G. Weyl's
    inequality is about the part that is really updated.
    """
    old, new = (g - np.diag(np.diag(g)) for g in (before, after))
    norm = float(np.abs(eigenvalues(new - gamma_g * old)).max())
    moved = np.abs(eigenvalues(new) - gamma_g * eigenvalues(old))
    return float(moved.max() - norm)


def theorem1_bound(mu: float, gamma: float, eta: float, horizon: int, delta: float) -> float:
    """Lower bound on λ_max(M_p) after `horizon` aligned events, with probability ≥ 1 − δ.

    η μ (1 − γᵀ)/(1 − γ) − η √(8 log(2/δ)/(1 − γ²))        (thm:sigma-mem-snr-main)

    >>> round(theorem1_bound(mu=0.6, gamma=0.99, eta=0.01, horizon=1000, delta=0.05), 3)
    0.215
    """
    signal = eta * mu * (1.0 - gamma**horizon) / (1.0 - gamma)
    noise = eta * math.sqrt(8.0 * math.log(2.0 / delta) / (1.0 - gamma**2))
    return signal - noise


def signal_to_noise(mu: float, gamma: float) -> float:
    """Stationary signal-to-noise ratio μ √((1 + γ)/(1 − γ)) (cor:snr).

    >>> round(signal_to_noise(0.5, 0.98), 3)
    4.975
    """
    return mu * math.sqrt((1.0 + gamma) / (1.0 - gamma))
