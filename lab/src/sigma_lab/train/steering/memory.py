"""φ and the memory in parallel form: readouts with the gradient of full back-propagation through time.

Unrolled, eq:sigma_mem_update and eq:sigma_readout give

    r_{p,t} = M_p φ_t = η Σ_{s<t} γ^(t−1−s) c_{p,s} (φ_s·φ_t) φ_s,

one Gram matrix and one product, in which autograd sees every φ. A memory that is
detached from its past gives another gradient (cosine 0.54 with the true one).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def phi_of(x: Tensor, weight: Tensor, const: float) -> Tensor:
    """`PhiMap` on whitened features, for autograd: unit([unit(W·x); const])."""
    rows = normalize(x @ weight.T, dim=1)
    return normalize(torch.cat([rows, rows.new_full((len(rows), 1), const)], dim=1), dim=1)


def memory_readouts(
    phi: Tensor, written: Tensor, at: Tensor, gamma: float, reset: Tensor | None = None
) -> Tensor:
    """M_p φ_t (B, P, rank) of every peer p before some events t, with η = 1 − γ so that ‖M‖ ≤ 1.

    Parameters
    ----------
    phi : (T, rank)
        Competence directions of the events in order.
    written : (T, P)
        Labels c that are written to the memory; 0 writes nothing.
    at : (B,) int
        Places to read before.
    reset : (P,) int
        Place at which a peer's memory was emptied: reads from there on know nothing of earlier events.

    Examples
    --------
    >>> phi = torch.tensor([[1.0], [1.0], [1.0]])
    >>> memory_readouts(phi, torch.ones(3, 1), torch.tensor([0, 2]), gamma=0.5).flatten().tolist()
    [0.0, 0.75]
    """
    place = torch.arange(len(phi), device=phi.device)
    weight = _kernel(phi, at, gamma)[:, :, None] * written[None, :, :]  # (B, T, P)
    if reset is not None:
        forgotten = (place[None, :, None] < reset) & (at[:, None, None] >= reset)
        weight = weight.masked_fill(forgotten, 0.0)
    return torch.einsum("btp,tr->bpr", weight, phi)


def memory_scores(phi: Tensor, written: Tensor, at: Tensor, gamma: float) -> Tensor:
    """η Σ_{s<t} γ^(t−1−s) c_{p,s} (φ_s·φ_t), (B, P): the constant coordinate of M_pφ_t over that of φ.

    A shift is linear in the readout and U nearly so in the shift: of the memory, a center can get a linear
    function of M_pφ and not φᵀM_pφ. This is the one that weighs all past events by likeness alone.
    """
    return _kernel(phi, at, gamma) @ written


def _kernel(phi: Tensor, at: Tensor, gamma: float) -> Tensor:
    """η γ^(t−1−s) (φ_s·φ_t) for s < t, else 0; shape (B, T)."""
    age = at[:, None] - 1 - torch.arange(len(phi), device=phi.device)
    power = torch.pow(phi.new_tensor(gamma), age.clamp(min=0).to(phi))
    return (phi[at] @ phi.T) * ((1.0 - gamma) * power.masked_fill(age < 0, 0.0))
