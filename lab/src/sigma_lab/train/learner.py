"""What is learned through the frozen model, from labels to utilities in one graph; and where P and g start.

How far a shift moves U differs by orders of magnitude between models, and creeping up to the right g by
gradient steps would take all the steps there are. With k·wᵀM_pφ the log-odds that the memory deserves, and a
the weight that the judge deserves for its own U relative to them, a·(U + slope·δ) should be a·U + k·wᵀM_pφ.
To first order the part of the memory needs no language model, so many events can show what it is worth. The
judge is tried on a few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from sigma_lab.train.data import Episode, IntArray, TrainingStream
from sigma_lab.train.objective import best_slope, listwise, memory_readouts, phi_of
from sigma_mem.center.center import Center, Pairs
from sigma_mem.center.phi import PhiMap
from sigma_mem.center.project import Steering
from sigma_mem.events import FloatArray


class Learner(nn.Module):
    """W of φ, learned in stage 1, and P and g of the steering, over one training stream."""

    def __init__(
        self, center: Center, data: TrainingStream, phi: PhiMap, *, gamma: float, cap: float
    ) -> None:
        super().__init__()
        self.center, self.data, self.gamma, self._phi = center, data, gamma, phi
        self.weight = nn.Parameter(torch.from_numpy(phi.weight).float())
        # Selection uses U within an event, whatever its scale (eq:sigma_normalized_utility). A loss on U
        # as it is would hold the memory's part to the log-odds it deserves, often less than the judge's own
        # noise; under a learned temperature memory and judge are only weighed against each other.
        self.log_temperature = nn.Parameter(torch.tensor(math.log(4.0)))
        self.steering = Steering(center.hidden, phi.rank, center.h_median, gain=0.0, cap=cap)
        self.lift = torch.zeros(phi.rank)
        self._x = torch.from_numpy((data.features - phi.mean) @ phi.whiten.T).float()

    def start(self, reading: FloatArray, direction: Tensor) -> None:
        """Set P = u·wᵀ and leave g at zero, so that learning begins at the base judge and yet has a gradient.

        With the reading w (rank,), wᵀM_pφ already distinguishes right from wrong (`start_reading`); u is the
        unit vector along the direction (d,), the mean gradient of U with respect to δ.
        """
        direction = direction.float().cpu()
        unit = normalize(direction, dim=0)
        with torch.no_grad():
            self.steering.projection.copy_(torch.outer(unit, torch.from_numpy(reading).float()))
        # To first order, what one unit of g adds to U of a readout r is liftᵀr.
        self.lift = self.center.h_median * (self.steering.projection.detach().T @ direction)

    @property
    def phi(self) -> PhiMap:
        """φ as it is now."""
        return replace(self._phi, weight=self.weight.detach().double().numpy().copy())

    def readouts(self, episode: Episode, at: IntArray) -> Tensor:
        """(B, S, rank) M_pφ of every seat before some places of an episode."""
        phi = phi_of(self._x[torch.from_numpy(episode.events)], self.weight, self._phi.const)
        written, reset = torch.from_numpy(episode.written).float(), torch.from_numpy(episode.reset)
        return memory_readouts(phi, written, torch.from_numpy(at), self.gamma, reset)

    def utility(self, episode: Episode, at: IntArray, readouts: Tensor) -> Tensor:
        """(B, S) U of every seat, steered by these readouts, over the temperature."""
        rows = self.center.rows(self.data.pairs(episode, at))
        delta = self.steering(readouts.flatten(0, 1))
        utility = self.center.upper(rows, delta)[0].cpu().reshape(readouts.shape[:2])
        return utility / self.log_temperature.exp()

    def losses(self, episode: Episode, at: IntArray) -> tuple[Tensor, Tensor, Tensor]:
        """Listwise losses (B,), utilities (B, S) and which seats are right (B, S)."""
        utility = self.utility(episode, at, self.readouts(episode, at))
        right = right_at(episode, at)
        return listwise(utility, right), utility, right


def right_at(episode: Episode, at: IntArray) -> Tensor:
    """(B, S) which seats are right at some places of an episode."""
    return torch.from_numpy(episode.labels[at] > 0)


def mean_gradient(center: Center, pairs: Pairs) -> Tensor:
    """(d,) mean over pairs of ∂U/∂δ at δ = 0; it hardly depends on content."""
    rows = center.rows(pairs)
    delta = torch.zeros(len(rows), center.hidden, device=center.device, requires_grad=True)
    utility, _ = center.upper(rows, delta)
    (gradient,) = torch.autograd.grad(utility.sum(), delta)
    return gradient.mean(dim=0).cpu()


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
