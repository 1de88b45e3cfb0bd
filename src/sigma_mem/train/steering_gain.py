"""The gain to begin with: memory and judge get the weight that their evidence deserves.

How far a shift moves U differs by orders of magnitude between models, and creeping up to the right g by
gradient steps would take all the steps there are. With k·wᵀM_pφ the log-odds that the memory deserves, and a
the weight that the judge's own U deserves beside them, a·(U + slope·δ) should be a·U + k·wᵀM_pφ. To first
order the memory's part needs no language model, so that many events can say what it is worth; the judge is
tried on a few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sigma_mem.train.episodes import Episode, IntArray
from sigma_mem.train.steering_learner import Learner
from sigma_mem.train.steering_loss import best_slope, listwise

__all__ = ["deserved_gain", "judge_weight"]

Draws = Sequence[tuple[Episode, IntArray]]


@torch.no_grad()
def deserved_gain(learner: Learner, judged: Draws, many: Draws) -> tuple[float, float]:
    """g, and the log of the temperature under which U is then log-odds.

    g goes no further than where 1 shift in 20 is longer than four fifths of the cap: a memory may grow longer
    than those of training, and two shifts that the cap holds tell no peer from another.

    Parameters
    ----------
    judged
        Episodes with the few places at which the judge is tried.
    many
        Episodes with the places at which the memory alone is.
    """
    readouts = [learner.readouts(*one) for one in many]
    per_gain = [r @ learner.lift for r in readouts]
    slope, _ = best_slope(list(zip(per_gain, map(_right, many), strict=True)))
    weight = judge_weight([_beside(learner, one, slope) for one in judged])
    lengths = torch.cat([(r @ learner.steering.projection.T).norm(dim=-1).flatten() for r in readouts])
    most = 0.8 * learner.steering.cap / max(float(lengths.quantile(0.95)), 1e-12)
    gain = min(slope / weight, most)
    return gain, math.log(gain / slope)


def judge_weight(batches: Sequence[tuple[Tensor, Tensor, Tensor]]) -> float:
    """The weight that a judge's U deserves beside log-odds from elsewhere, between 0.01 and 2.

    A judge has to earn it: the mode of its posterior under a normal prior of mean 0 and deviation 1. A U that
    hardly differs between peers, or that is wrong as often as right, is left with next to none, and g goes as
    far as the cap lets it; a knowing judge soon has its due. SmolLM2 on MMLU-Pro is of the first kind: its U
    finds a right peer less often than chance does.

    Parameters
    ----------
    batches : sequence of (B, P) tensors
        U, log-odds from elsewhere, and who is right.
    """
    weights = torch.linspace(0.01, 2.0, 200)
    losses = [
        sum(float(listwise(w * u + beside, right).sum()) for u, beside, right in batches)
        + 0.5 * float(w) ** 2
        for w in weights
    ]
    return float(weights[int(torch.tensor(losses).argmin())])


def _beside(learner: Learner, one: tuple[Episode, IntArray], slope: float) -> tuple[Tensor, Tensor, Tensor]:
    """U of the base judge, the memory's log-odds, and who is right."""
    readouts = learner.readouts(*one)
    base = learner.utility(*one, torch.zeros_like(readouts)) * learner.log_temperature.exp()
    return base, slope * (readouts @ learner.lift), _right(one)


def _right(one: tuple[Episode, IntArray]) -> Tensor:
    episode, at = one
    return torch.from_numpy(episode.labels[at] > 0)
