"""What training demands of the utilities: the right peers first, and only thanks to the right memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def listwise(utility: Tensor, right: Tensor) -> Tensor:
    """−log of the softmax mass (B,) on the right peers, by event; several may be right.

    0 if all are right or none is: such an event cannot distinguish choices.

    Examples
    --------
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

    Examples
    --------
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
