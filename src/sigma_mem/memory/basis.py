"""What p̂ of a peer rests on: labels near φ, its overall rate, agreement with others, and the pool.

p̂ is a chain of weighted means. Labels near φ are shrunk to the peer's overall rate, that rate to how often
the peer agrees with others, and its agreement to that of the pool. So every part has a weight, and they add
up to 1. Where agreement is not kept, what it would have weighed falls to the pool.
"""

from __future__ import annotations

from dataclasses import dataclass

from sigma_mem.events import FloatArray
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.state import SigmaState


@dataclass(frozen=True, slots=True)
class Basis:
    """Evidence behind one peer's p̂ at one φ, and the weight of each part in it.

    Attributes
    ----------
    labels_near, labels : float
        Decayed number of labels near φ, and anywhere.
    agreement_near, agreement : float
        Decayed number of events, near φ and anywhere, in which its answer was compared with others'.
    from_labels, from_overall, from_agreement, from_pool : float
        Weight of labels near φ, of its labels anywhere, of its agreement, and of what the pool is like.
    """

    labels_near: float
    labels: float
    agreement_near: float
    agreement: float
    from_labels: float
    from_overall: float
    from_agreement: float
    from_pool: float

    def __str__(self) -> str:
        return (
            f"p rests {self.from_labels:.0%} on labels near here ({self.labels_near:.1f}), "
            f"{self.from_overall:.0%} on its overall rate ({self.labels:.0f} labels), "
            f"{self.from_agreement:.0%} on agreement ({self.agreement_near:.1f} near here of "
            f"{self.agreement:.0f}), {self.from_pool:.0%} on the pool"
        )


def basis(
    labels_near: float,
    labels: float,
    agreement_near: float,
    agreement: float,
    settings: Settings,
    n_peers: int,
) -> Basis:
    """Weigh the evidence as p̂ does, with the overall rate of the slowest horizon.

    >>> found = basis(10.0, 10.0, 3.0, 30.0, Settings(), n_peers=3)
    >>> found.from_labels, found.from_overall, found.from_agreement, found.from_pool
    (0.5, 0.25, 0.1875, 0.0625)
    """
    evidence = [max(0.0, n) for n in (labels_near, labels, agreement)]
    strengths = (settings.local_strength(n_peers), settings.strength, settings.strength)
    left, shares = 1.0, []
    for n, strength in zip(evidence, strengths, strict=True):
        share = left * n / (n + strength)
        shares.append(share)
        left -= share
    return Basis(
        evidence[0], evidence[1], max(0.0, agreement_near), evidence[2], shares[0], shares[1], shares[2], left
    )


def bases(state: SigmaState, phi: FloatArray) -> dict[str, Basis]:
    """What p̂ of every peer rests on at φ, now."""
    near, labels = state.read(phi).effective, state.overall()[1]
    agreement_near, agreement = state.agreement_evidence(phi)
    return {
        peer: basis(
            float(near[i]),
            float(labels[i]),
            float(agreement_near[i]),
            float(agreement[i]),
            state.settings,
            len(state.peers),
        )
        for i, peer in enumerate(state.peers)
    }
