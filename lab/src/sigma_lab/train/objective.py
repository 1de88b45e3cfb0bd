"""φ and the memory in parallel form, and what training demands of the utilities.

Unrolled, eq:sigma_mem_update and eq:sigma_readout give

    r_{p,t} = M_p φ_t = η Σ_{s<t} γ^(t−1−s) c_{p,s} (φ_s·φ_t) φ_s,

one Gram matrix and one product, in which autograd sees every φ: the gradient of full back-propagation through
time. A memory that is detached from its past gives another gradient (cosine 0.54 with the true one).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import normalize


def phi_of(x: Tensor, weight: Tensor, const: float) -> Tensor:
    """`PhiMap` on whitened features, for autograd: unit([unit(W·x); const])."""
    rows = normalize(x @ weight.T, dim=1)
    return normalize(torch.cat([rows, rows.new_full((len(rows), 1), const)], dim=1), dim=1)


def memory_readouts(
    phi: Tensor, written: Tensor, at: Tensor, gamma: float, reset: Tensor | None = None
) -> Tensor:
    """M_p φ_t (B, P, rank) of every peer p before the events ``at`` (B,), with η = 1 − γ so that ‖M‖ ≤ 1.

    φ (T, rank) is that of the events in order. ``written`` (T, P) are the labels that are written to the
    memory; 0 writes nothing. ``reset`` (P,) is the place at which a peer's memory was emptied: reads from
    there on know nothing of earlier events.

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


def listwise(utility: Tensor, right: Tensor) -> Tensor:
    """−log of the softmax mass (B,) on the right peers, by event; several may be right.

    0 if all are right or none is: such an event cannot distinguish choices.

    >>> listwise(torch.zeros(2, 2), torch.tensor([[True, False], [True, True]])).exp().tolist()
    [2.0, 1.0]
    """
    log_share = functional.log_softmax(utility, dim=1)
    contested = right.any(dim=1) & ~right.all(dim=1)
    # −1e9 and not −inf: an event without a right peer would give NaN gradients even if it is left out.
    mass = log_share.masked_fill(~right, -1e9).logsumexp(dim=1)
    return torch.where(contested, -mass, torch.zeros_like(mass))


def pointwise(utility: Tensor, right: Tensor) -> Tensor:
    """Cross-entropy of U as the log-odds of being right, by event, after taking out the mean of the batch.

    The base judge's overall leaning to Yes or No is nobody's fault and is not to be unlearned.
    """
    centred = utility - utility.detach().mean()
    share = right.to(utility.dtype).mean().clamp(0.01, 0.99)
    logits = centred + torch.log(share / (1 - share))
    truth = right.to(utility.dtype)
    return functional.binary_cross_entropy_with_logits(logits, truth, reduction="none").mean(dim=1)


def best_slope(batches: Sequence[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """The factor on the utilities, above zero, of the lowest mean listwise loss; and that loss.

    A batch is utilities and which peers are right, (B, P) each; the number of peers may differ.

    >>> right = torch.tensor([[True, False]] * 3 + [[False, True]])
    >>> slope, _ = best_slope([(torch.tensor([[2.0, 0.0]] * 4), right)])
    >>> round(2 * slope, 2)  # log-odds of 3 in 4
    1.1
    """
    spread = torch.cat([(u - u.mean(dim=1, keepdim=True)).flatten() for u, _ in batches]).std()
    unit = 1.0 / float(spread.clamp_min(1e-12))
    exponents = torch.linspace(-5.0, 5.0, 41)
    for _ in range(3):
        slopes = [unit * float(e.exp()) for e in exponents]
        losses = [float(torch.cat([listwise(k * u, right) for u, right in batches]).mean()) for k in slopes]
        best = int(torch.tensor(losses).argmin())
        around, width = exponents[best], float(exponents[1] - exponents[0])
        exponents = torch.linspace(float(around) - width, float(around) + width, 21)
    return slopes[best], losses[best]


def margin(kept: Tensor, other: Tensor, width: float) -> Tensor:
    """How far the loss under the kept memory fails to be ``width`` below that under another one."""
    return functional.relu(width + kept - other)
