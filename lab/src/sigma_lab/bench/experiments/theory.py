"""What the paper proves of eigenvalues: Theorem 1 against simulation, and Weyl's bound at every event."""

import math
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.table import Table
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.streams import Stream


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


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """One setting of Theorem 1: the bound on λ_max, and what simulated memories did."""

    mu: float
    gamma: float
    horizon: int
    delta: float
    bound: float
    lowest: float
    mean: float
    violations: float  # share of the memories below the bound; at most δ if the theorem holds
    snr: float  # μ√((1+γ)/(1−γ))
    snr_simulated: float  # of the simulated score in units of one label's deviation, like `snr`


@dataclass(frozen=True, slots=True)
class WeylCheck:
    """Largest |λᵢ(M′) − γλᵢ(M)| − η, the same of G, and ‖M‖₂ against η/(1 − γ), over a stream."""

    events: int
    worst_excess: float
    worst_excess_relation: float
    largest_norm: float
    norm_bound: float
    holds: bool


def theory_table(
    stream: Stream, phis: FloatArray, setup: Setup = DEFAULT, *, simulations: int = 1000
) -> Table:
    """Simulate Theorem 1 over a grid of μ, γ and T, then walk the stream event by event."""
    grid = list(product((0.1, 0.4, 0.8), (0.9, 0.99, 0.999), (20, 5000)))
    bounds = []
    for done, (mu, gamma, horizon) in enumerate(grid, start=1):
        bounds.append(simulate_bound(mu, gamma, horizon, 0.05, simulations, setup.seed))
        setup.progress("theorem 1", done, len(grid))
    weyl = weyl_on_stream(stream, phis, setup)
    return Table(
        title=f"Theory: {stream.name}",
        values={"stream": stream.name, "theorem1": [asdict(b) for b in bounds], "weyl": asdict(weyl)},
        header=list(_COLUMNS),
        rows=[[cell.format(check) for cell in _COLUMNS.values()] for check in bounds],
        remarks=[
            f"Weyl over {weyl.events} events: largest |λᵢ(M′) − γλᵢ(M)| − η is {weyl.worst_excess:+.2e}, of "
            f"G {weyl.worst_excess_relation:+.2e} (at most 0 up to rounding); ‖M‖₂ ≤ {weyl.largest_norm:.4f} "
            f"of {weyl.norm_bound:.4f}: {'holds' if weyl.holds else 'VIOLATED'}."
        ],
    )


_COLUMNS = {
    "μ": "{0.mu:g}",
    "γ": "{0.gamma:g}",
    "T": "{0.horizon}",
    "bound": "{0.bound:+.4f}",
    "lowest λ_max": "{0.lowest:.4f}",
    "mean λ_max": "{0.mean:.4f}",
    "below the bound": "{0.violations:.2%} (δ = {0.delta:.0%})",
    "SNR": "{0.snr:.2f}",
    "SNR simulated": "{0.snr_simulated:.2f}",
}


def simulate_bound(
    mu: float, gamma: float, horizon: int, delta: float, simulations: int, seed: int = 0
) -> BoundCheck:
    """λ_max after ``horizon`` events along one direction, in many memories (thm:sigma-mem-snr-main).

    The memories are the peers of one `SigmaState`, so what is simulated is the code that ships.
    """
    rng = np.random.default_rng(seed)
    eta = 1.0 - gamma
    memory = SigmaState(
        [str(i) for i in range(simulations)], 2, Settings(gamma=gamma, agreement=False, regression=False)
    )
    phi = np.array([0.6, 0.8])
    for _ in range(horizon):
        c = np.where(rng.random(simulations) < (1.0 + mu) / 2.0, 1.0, -1.0)
        memory.write(phi, c, memory.begin_event())
    top = eigenvalues(memory.M)[:, 0]
    score = memory.read(phi).score
    bound = theorem1_bound(mu, gamma, eta, horizon, delta)
    noise = float(score.std()) / np.sqrt(1.0 - mu**2)  # of labels with variance 1, as the corollary has it
    simulated = float(top.min()), float(top.mean()), float((top < bound).mean())
    ratios = signal_to_noise(mu, gamma), float(score.mean()) / noise
    return BoundCheck(mu, gamma, horizon, delta, bound, *simulated, *ratios)


def weyl_on_stream(stream: Stream, phis: FloatArray, setup: Setup) -> WeylCheck:
    """Write a stream event by event and measure how far every eigenvalue of every M_p and of G moves."""
    settings = setup.settings
    state = SigmaState(stream.peers, phis.shape[1], settings)
    before, relation = state.M, state.G
    worst, worst_g, norm = -np.inf, -np.inf, 0.0
    for t, (phi, c) in enumerate(zip(phis, stream.labels(), strict=True), start=1):
        state.write(phi, c, state.begin_event())
        after, now = state.M, state.G
        worst = max(worst, weyl_excess(before, after, settings.gamma, settings.step))
        worst_g = max(worst_g, weyl_excess_relation(relation, now, settings.gamma_g))
        norm = max(norm, float(np.abs(eigenvalues(after)).max()))
        before, relation = after, now
        setup.progress("Weyl", t, len(stream))
    limit = settings.step / (1.0 - settings.gamma) if settings.gamma < 1.0 else np.inf
    holds = worst <= 1e-9 and worst_g <= 1e-9 and norm <= limit + 1e-9
    return WeylCheck(len(stream), float(worst), float(worst_g), norm, float(limit), bool(holds))
