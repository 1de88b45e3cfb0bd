"""Where P and g start: memory and judge get the weight that their evidence deserves.

How far a shift moves U differs by orders of magnitude between models, and creeping up to the right g by
gradient steps would take all the steps there are. With k·wᵀM_pφ the log-odds that the memory deserves, and a
the weight that the judge's own U deserves relative to them, a·(U + slope·δ) should be a·U + k·wᵀM_pφ. To
first order the memory's part needs no language model, so many events can show what it is worth. The judge is
tried on a few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sigma_lab.train.steering.data import Episode, IntArray
from sigma_lab.train.steering.learner import Learner, right_at
from sigma_lab.train.steering.loss import best_slope, listwise
from sigma_mem.events import FloatArray

Draws = Sequence[tuple[Episode, IntArray]]


def start_reading(readouts: Sequence[Tensor]) -> FloatArray:
    """w of the read that P starts from: the constant coordinate of M_pφ, in units of its spread.

    It weighs every past event by its likeness to the present one, and by nothing else. A w fitted to labels
    weighs events by their φ as well, and was worse on events that it had not seen.

    The readouts are M_pφ (n, S, rank) of contested events; the number of seats may differ. The standard
    deviation of wᵀr within an event is 1 on average, so that a gain g means a shift of about g median norms.
    """
    spread = torch.cat([r[..., -1].std(dim=1) for r in readouts]).mean().clamp_min(1e-12)
    w = np.zeros(readouts[0].shape[-1])
    w[-1] = 1.0 / float(spread)
    return w


@torch.no_grad()
def deserved_gain(learner: Learner, judged: Draws, many: Draws) -> tuple[float, float]:
    """g, and the log of the temperature under which U is then log-odds.

    The judge is tried at the few places of ``judged``, the memory alone at those of ``many``. g goes no
    further than where 1 shift in 20 is longer than four fifths of the cap: a memory may grow longer than
    those of training, and two shifts at the cap do not distinguish peers.
    """
    readouts = [learner.readouts(*one) for one in many]
    slope, _ = best_slope([(r @ learner.lift, right_at(*one)) for r, one in zip(readouts, many, strict=True)])
    batches = []
    for one in judged:
        r = learner.readouts(*one)
        base = learner.utility(*one, torch.zeros_like(r)) * learner.log_temperature.exp()
        batches.append((base, slope * (r @ learner.lift), right_at(*one)))
    lengths = torch.cat([(r @ learner.steering.projection.T).norm(dim=-1).flatten() for r in readouts])
    most = 0.8 * learner.steering.cap / max(float(lengths.quantile(0.95)), 1e-12)
    gain = min(slope / judge_weight(batches), most)
    return gain, math.log(gain / slope)


def judge_weight(batches: Sequence[tuple[Tensor, Tensor, Tensor]]) -> float:
    """The weight that a judge's U deserves relative to log-odds from elsewhere, between 0.01 and 2.

    A batch is U, log-odds from elsewhere, and which peers are right, (B, P) each.
    A judge has to earn it: the mode of its posterior under a normal prior of mean 0 and deviation 1. A U that
    hardly differs between peers, or that is wrong as often as right, is left with next to none, and g goes as
    far as the cap lets it. A competent judge soon has its due. SmolLM2 on MMLU-Pro is of the first kind: its
    U finds a right peer less often than chance does.
    """
    weights = torch.linspace(0.01, 2.0, 200)
    losses = [
        sum(float(listwise(w * u + beside, right).sum()) for u, beside, right in batches)
        + 0.5 * float(w) ** 2
        for w in weights
    ]
    return float(weights[int(torch.tensor(losses).argmin())])
